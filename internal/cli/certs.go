package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

func newCerts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "List certificates, rotate authorities and token keys, revoke the administrator's access",
	}
	cmd.AddCommand(newCertsList(), newCertsRotate(), newCertsRevokeAdmin())
	return cmd
}

func newCertsList() *cobra.Command {
	flags := &configFlags{}
	var output format
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the certificates and keys of the data directory",
		Long: `List the certificates and keys of the data directory, of a running server or of a
stopped one: each authority with the certificates that it has signed, then the
keys of service account tokens.`,
		Example: `  kube-hyper-mini certs list
  kube-hyper-mini certs list -o json`,
		RunE: flags.with(func(cmd *cobra.Command, _ []string, cfg *config.ServerConfiguration) error {
			cfg, err := planeConfig(cfg, flags.plane)
			if err != nil {
				return err
			}
			list, err := parts.ListCertificates(cfg)
			if flags.plane != "" && errors.Is(err, fs.ErrNotExist) {
				return neverUsed(flags.plane, "certificates", err)
			}
			if err != nil {
				return err
			}
			return output.write(cmd.OutOrStdout(), list, func(w io.Writer) error { return printCertificates(w, list) })
		}),
	}
	flags.addPlane(cmd.Flags())
	output.add(cmd)
	return cmd
}

func printCertificates(w io.Writer, list []pki.Entry) error {
	return writeTable(w, func(row func(format string, args ...any)) {
		row("NAME\tSUBJECT\tISSUER\tUNTIL\tUSED FOR")
		for _, e := range list {
			subject, issuer, until := e.Subject, e.Issuer, e.Until.Local().Format(time.DateOnly)
			if subject == "" {
				subject, issuer, until = "key "+e.Key[:16], "-", "-"
			}
			if issuer == subject {
				issuer = "itself"
			}
			switch e.State {
			case pki.Valid:
			case pki.NotValidYet:
				until = fmt.Sprintf("%s (NOT VALID before %s)", until, e.From.Local().Format(time.DateTime))
			default:
				until = fmt.Sprintf("%s (%s)", until, strings.ToUpper(string(e.State)))
			}
			used := e.UsedFor
			if !e.TrustedUntil.IsZero() {
				used += ", replaced, dropped at " + e.TrustedUntil.Local().Format(time.DateTime)
			}
			row("%s\t%s\t%s\t%s\t%s", e.Name, subject, issuer, until, used)
		}
	})
}

const certsRotateHelp = `Replace an authority or the key of service account tokens, of a running server or
of a stopped one. The new one signs at once. The old one stays trusted until the
end of the overlap. --finish ends the overlap now; with --overlap 0s there is none.
No request fails, and no restart is needed.

  server           The authority of the serving certificate. During the overlap
                   the server sends a chain that old and new clients accept. Give
                   clients the new kubeconfig; kube-root-ca.crt is updated.
  client           The authority of client certificates. Request certificates of
                   users ("kubeconfig create", certificate signing requests)
                   again during the overlap.
  front-proxy      The authority with which aggregated API servers verify this
                   server; extension-apiserver-authentication is updated.
  service-account  The key of service account tokens. Programs renew tokens that
                   they request. For a token in a secret, delete the field "token"
                   of the secret during the overlap: it is made again. Programs
                   that verify tokens with /openid/v1/jwks read it within an hour.

Of several servers on one etcd, stop all but one, rotate on that one while it runs, copy
its pki directory to the others, and start them. Do so again after the overlap.

With a running server the command uses its API, with the administrator's
kubeconfig in the data directory (POST /kube-hyper-mini/certificates). A rotation
that was interrupted by a crash continues at the next start; run the command again
if "certs list" shows a new one that does not sign yet.`

func newCertsRotate() *cobra.Command {
	flags := &configFlags{}
	change := admin.CertificateChange{Overlap: 30 * day}
	kinds := strings.Join(pki.Kinds(), "|")
	cmd := &cobra.Command{
		Use:   "rotate " + kinds,
		Short: "Replace an authority or the key of service account tokens, of a running server or of a stopped one",
		Long:  certsRotateHelp,
		Example: `  kube-hyper-mini certs rotate client
  kube-hyper-mini certs rotate server --overlap 90d
  kube-hyper-mini certs rotate client --finish`,
		Args:              exactly("NAME"),
		ValidArgsFunction: cobra.FixedCompletions(pki.Kinds(), cobra.ShellCompDirectiveNoFileComp),
		RunE: flags.with(func(cmd *cobra.Command, args []string, cfg *config.ServerConfiguration) error {
			change.Rotate = args[0]
			if !slices.Contains(pki.Kinds(), change.Rotate) {
				return usageError(fmt.Errorf("%q cannot be rotated; allowed: %s", args[0], strings.Join(pki.Kinds(), ", ")))
			}
			if flags.plane != "" && change.Rotate == "server" {
				return usageError(fmt.Errorf("clients of %s verify the server's own certificate: use \"kube-hyper-mini "+
					"certs rotate server\" without --plane", flags.plane))
			}
			if change.Overlap < 0 {
				return usageError(fmt.Errorf("--overlap %s is negative; 0s has no overlap", change.Overlap))
			}
			done, err := changeCertificates(cmd, flags, cfg, change)
			if err != nil {
				return err
			}
			return printRotated(cmd.OutOrStdout(), change.Rotate, done)
		}),
	}
	flags.addPlane(cmd.Flags())
	addDuration(cmd.Flags(), &change.Overlap, "overlap", "how long the old one stays trusted")
	cmd.Flags().BoolVar(&change.Finish, "finish", false, "end the overlap of a rotation now")
	return cmd
}

func printRotated(w io.Writer, kind string, done *admin.CertificatesChanged) error {
	text := ""
	for _, c := range done.Changes {
		text += fmt.Sprintf("%s: %s\n", c.Name, c.Reason)
	}
	old := "the old one is no longer trusted"
	if done.Until.After(time.Now()) {
		old = "the old one is trusted until " + done.Until.Local().Format(time.DateTime)
	}
	_, err := fmt.Fprintf(w, "%s%s: %s\n", text, kind, old)
	return err
}

func newCertsRevokeAdmin() *cobra.Command {
	flags := &configFlags{}
	cmd := &cobra.Command{
		Use:   "revoke-admin",
		Short: "Refuse the administrator's certificates and make a new kubeconfig",
		Long: `Refuse the administrator's existing certificates, and make a new key, certificate
and kubeconfig. Other clients are not affected.

The key is that of pki/admin.crt in this data directory, and is listed in
pki/revoked-keys. Servers on one etcd whose pki directories are copies share the key: run
the command on each. Where the keys differ, as afterwards, and in the pods of
packaging/kubernetes/external, it does not end the access at the others, and a new pod
does not know of it. There, and at aggregated API servers that clients connect to
directly, only "certs rotate client --overlap 0s" ends it: that invalidates all client
certificates.

A backup that was made before does not list the key: run the command again after
restoring it.`,
		Example: `  kube-hyper-mini certs revoke-admin`,
		RunE: flags.with(func(cmd *cobra.Command, _ []string, cfg *config.ServerConfiguration) error {
			_, err := changeCertificates(cmd, flags, cfg, admin.CertificateChange{RevokeAdmin: true})
			if err != nil {
				return err
			}
			if plane := flags.plane; plane != "" {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the previous certificates of the administrator of %s are refused\n", plane)
				return err
			}
			others := ""
			if len(cfg.Etcd.External.Endpoints) > 0 {
				others = " by this server; run the command on the others of the etcd, too"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the administrator's previous certificates are refused%s; the "+
				"new kubeconfig is %s\n", others, cfg.Kubeconfig.Path)
			return err
		}),
	}
	flags.addPlane(cmd.Flags())
	return cmd
}

// changeCertificates applies the change to the running server or, if none runs, to the
// data directory.
func changeCertificates(cmd *cobra.Command, flags *configFlags, cfg *config.ServerConfiguration,
	change admin.CertificateChange) (done *admin.CertificatesChanged, err error) {
	err = onServer(cmd, flags, func(log *slog.Logger) (err error) {
		done, err = parts.ChangeCertificates(cmd.Context(), cfg, log, change)
		return err
	}, func(kubeconfig []byte) (err error) {
		done, err = admin.ChangeCertificates(cmd.Context(), kubeconfig, change)
		return err
	})
	return done, err
}
