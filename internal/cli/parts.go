package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// partCommand completes a command that runs a component of the server in the foreground.
// serves means that it serves the API, and has the flags for it.
func partCommand(cmd *cobra.Command, flags *configFlags, serves bool, run func(context.Context, *appliance.Checked, *slog.Logger) error) *cobra.Command {
	var newIdentity bool
	cmd.Annotations = runsServer()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, source, err := flags.load(cmd)
		if err != nil {
			return err
		}
		showProgress(cmd)
		log, err := serverLog(cmd, cfg)
		if err != nil {
			return err
		}
		checked, err := appliance.Check(cfg)
		if err != nil {
			return usageError(source.Locate(err))
		}
		checked.AsProgram()
		if newIdentity {
			checked.AllowNewIdentity()
		}
		adoptOrphans(cmd.Context())
		err = run(cmd.Context(), checked, log)
		if field := new(config.FieldError); errors.As(err, &field) {
			return usageError(source.Locate(err)) // run alone, a component may need a field that `server` does not
		}
		return err
	}
	if serves {
		flags.addServer(cmd.Flags())
	} else {
		flags.addPart(cmd.Flags())
	}
	cmd.Flags().BoolVar(&newIdentity, "new-identity", false, "make new authorities and keys where a used data directory lacks them, or for an external etcd that other servers have used; clients then need new kubeconfigs and tokens")
	return cmd
}

// serverLog returns the log of a server.
func serverLog(cmd *cobra.Command, cfg *config.ServerConfiguration) (*slog.Logger, error) {
	return logging.Setup(cmd.ErrOrStderr(), logging.Options{
		Format: cfg.Logging.Format, Verbosity: cfg.Logging.Verbosity, Color: useColor(cmd.ErrOrStderr()),
		// systemd sets JOURNAL_STREAM if standard error is the journal, which adds times.
		Untimed: os.Getenv("JOURNAL_STREAM") != "",
	})
}

func newAPIServer() *cobra.Command {
	return partCommand(&cobra.Command{
		Use:   "apiserver",
		Short: "Run the API server alone, on an external etcd",
		Long: `Run the API server alone, on the external etcd of the configuration. The
controllers run in another process: in another server on the same etcd, or with
"kube-hyper-mini controllers".`,
		Example: `  kube-hyper-mini apiserver --config /etc/kube-hyper-mini/config.yaml`,
	}, &configFlags{}, true, appliance.RunAPIServer)
}

func newControllers() *cobra.Command {
	return partCommand(&cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers alone, with API servers in other processes",
		Long: `Run the controllers alone, with the API servers at controllerManager.server of the
configuration. Of all such processes on one etcd, the one that holds the lease runs
the controllers. The data directory must have the certificates and keys of the
API servers; see "kube-hyper-mini bundle".`,
		Example: `  kube-hyper-mini controllers --config /etc/kube-hyper-mini/config.yaml`,
	}, &configFlags{}, false, appliance.RunControllers)
}

func newEtcd() *cobra.Command {
	return partCommand(&cobra.Command{
		Use:   "etcd",
		Short: "Run the etcd member alone, for API servers in other processes",
		Long: `Run the etcd member alone. It serves on etcd.embedded.listen of the configuration,
for clients with a certificate of its own authority. API servers use
pki/etcd-ca.crt, pki/etcd-client.crt and pki/etcd-client.key of this data
directory, or of one that was made from its bundle.`,
		Example: `  kube-hyper-mini etcd --data-dir /var/lib/kube-hyper-mini-etcd`,
	}, &configFlags{}, false, appliance.RunEtcd)
}
