package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

// kubeconfigFlags are the flags of kubeconfig.
type kubeconfigFlags struct {
	configFlags
	server, output string
	context        string
	force          bool
	merge, use     bool
}

func newKubeconfig() *cobra.Command {
	flags := &kubeconfigFlags{}
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig, or merge it into your own",
		Long: `Print the administrator's kubeconfig. --output writes it to a file that only you can
read. --merge adds it to your own, as kubectl finds it (KUBECONFIG, ~/.kube/config), and
--use makes it the current context there. Entries of other servers are never replaced:
--context names the context, its cluster and its user. The former file is kept as
FILE.backup.

--server prints it with another address of the server, as that of a container's
mapped port. The file of the server stays as it is. If the server's certificate does
not have that host, the kubeconfig names one that the certificate has
(tls-server-name); for clients that do not support this, start the server with
--tls-san HOST.

--plane prints it with the address of a control plane. It stays that of the administrator
of the server and of all its control planes: keep it, and make others with
"kube-hyper-mini kubeconfig create NAME --plane PLANE".`,
		Example: `  kube-hyper-mini kubeconfig -o admin.kubeconfig
  kube-hyper-mini kubeconfig --merge --context mini --use
  kube-hyper-mini kubeconfig --server https://127.0.0.1:32768 > admin.kubeconfig
  kube-hyper-mini kubeconfig --plane acme --context acme -o acme.kubeconfig`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(cmd); err != nil {
				return usageError(err)
			}
			return flags.write(cmd)
		},
	}
	flags.addPlane(cmd.Flags())
	cmd.Flags().StringVar(&flags.server, "server", "", "URL of the server in the kubeconfig, if it differs from the "+
		"one that the server has written; https://HOST:PORT")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "file to write, with mode 0600, instead of printing")
	cmd.Flags().BoolVar(&flags.force, "force", false, "replace the file of --output if there is one")
	cmd.Flags().StringVar(&flags.context, "context", kubeconfig.Name, "name of the context, its cluster and its user")
	cmd.Flags().BoolVar(&flags.merge, "merge", false, "add it to your own kubeconfig instead of printing")
	cmd.Flags().BoolVar(&flags.use, "use", false, "with --merge: make it the current context")
	cmd.AddCommand(newKubeconfigCreate())
	return cmd
}

// check validates the flags.
func (f *kubeconfigFlags) check(cmd *cobra.Command) error {
	if err := checkReplace(f.output, f.force); err != nil {
		return err
	}
	switch {
	case f.merge && f.output != "":
		return errors.New("--merge and --output exclude each other")
	case f.use && !f.merge:
		return errors.New("--use needs --merge")
	}
	if cmd.Flags().Changed("server") {
		return checkServerURL(f.server)
	}
	return nil
}

// write prints or writes the kubeconfig.
func (f *kubeconfigFlags) write(cmd *cobra.Command) error {
	data, err := readAdminKubeconfig(cmd, &f.configFlags)
	if err == nil {
		err = (&clientFlags{configFlags: f.configFlags}).refuseUnknown(cmd)
	}
	if err == nil && f.server != "" {
		data, err = withServer(cmd, &f.configFlags, data, f.server)
	}
	if err == nil {
		data, err = atPlane(data, f.plane)
	}
	if err == nil && f.context != kubeconfig.Name {
		data, err = kubeconfig.Rename(data, f.context)
	}
	if err != nil {
		return err
	}
	if f.plane != "" {
		cmd.PrintErrf("it is that of the administrator of the server and of all its control planes;\n"+
			"for others: kube-hyper-mini kubeconfig create NAME --plane %s\n", f.plane)
	}
	if f.merge {
		return f.mergeInto(cmd.OutOrStdout(), data)
	}
	return writeKubeconfig(cmd, f.output, data)
}

// writeKubeconfig writes to the file, or to standard output without one.
func writeKubeconfig(cmd *cobra.Command, file string, data []byte) error {
	if file != "" {
		return datadir.WriteFile(file, data, 0o600)
	}
	_, err := cmd.OutOrStdout().Write(data)
	return err
}

// mergeInto merges the kubeconfig into the user's own.
func (f *kubeconfigFlags) mergeInto(out io.Writer, data []byte) error {
	file, backup, err := kubeconfig.Merge(data, f.use)
	if err != nil {
		return err
	}
	if backup != "" {
		backup = "; the file as it was is " + backup
	}
	_, err = fmt.Fprintf(out, "context %q is in %s%s\n", f.context, file, backup)
	return err
}

// withServer returns the kubeconfig with the URL, and with a name that the serving
// certificate has, if it does not have the host of the URL.
func withServer(cmd *cobra.Command, flags *configFlags, data []byte, server string) ([]byte, error) {
	name, err := servedName(cmd, flags, server)
	if err != nil {
		return nil, err
	}
	return kubeconfig.SetServer(data, strings.TrimRight(server, "/"), name)
}

// servedName returns [identity.ServedName] for the host of the URL and the local server.
func servedName(cmd *cobra.Command, flags *configFlags, server string) (string, error) {
	cfg, err := completed(cmd, flags)
	if err != nil {
		return "", err
	}
	u, err := config.ParseServerURL(server)
	if err != nil {
		return "", err
	}
	return identity.ServedName(&cfg.Serving, cfg.DataDir, u.Hostname())
}
