package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// runsPart completes a command that runs a server component in the foreground, and
// that serves the API or not.
func runsPart(cmd *cobra.Command, serves bool, run func(context.Context, *appliance.Checked, *slog.Logger) error) *cobra.Command {
	flags := &configFlags{}
	var newIdentity bool
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, source, err := flags.load(cmd)
		if err != nil {
			return err
		}
		log, err := logging.Setup(cmd.ErrOrStderr(), logging.Options{
			Format: cfg.Logging.Format, Verbosity: cfg.Logging.Verbosity, Color: isTerminal(cmd.ErrOrStderr()),
			// systemd sets it for a standard error that is the journal.
			Untimed: os.Getenv("JOURNAL_STREAM") != "",
		})
		if err != nil {
			return err
		}
		checked, err := appliance.Check(cfg)
		if err != nil {
			return usageError(source.Locate(err))
		}
		if newIdentity {
			checked.AllowNewIdentity()
		}
		adoptOrphans(cmd.Context())
		err = run(cmd.Context(), checked, log)
		if lacks := new(config.FieldError); errors.As(err, &lacks) {
			return usageError(source.Locate(err)) // a part needs what the server does not
		}
		return err
	}
	if serves {
		flags.all(cmd.Flags())
	} else {
		flags.withoutPort(cmd.Flags())
	}
	cmd.Flags().BoolVar(&newIdentity, "new-identity", false, "make authorities and keys that a used data directory has lost; clients then need new kubeconfigs and tokens")
	return cmd
}

func newAPIServer() *cobra.Command {
	return runsPart(&cobra.Command{
		Use:   "apiserver",
		Short: "Run the API server alone, on an external etcd",
		Long: `Run the API server alone, on the external etcd of the configuration. Its
controllers run elsewhere: in another server on the same etcd, or by
"kube-hyper-mini controllers".`,
		Example: `  kube-hyper-mini apiserver --config /etc/kube-hyper-mini/config.yaml`,
	}, true, appliance.RunAPIServer)
}

func newControllers() *cobra.Command {
	return runsPart(&cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers alone, against API servers elsewhere",
		Long: `Run the controllers alone, against the API servers at controllerManager.server
of the configuration. They work when they hold the lease that all controllers of
one etcd share. The data directory has the identity of the API servers; see
"kube-hyper-mini bundle".`,
		Example: `  kube-hyper-mini controllers --config /etc/kube-hyper-mini/config.yaml`,
	}, false, appliance.RunControllers)
}

func newEtcd() *cobra.Command {
	return runsPart(&cobra.Command{
		Use:   "etcd",
		Short: "Run the etcd member alone, for API servers elsewhere",
		Long: `Run the etcd member alone. It serves on etcd.embedded.listen of the
configuration, to holders of a certificate of its own authority: API servers find
theirs in pki/etcd-ca.crt, pki/etcd-client.crt and pki/etcd-client.key of the
data directory, or of one that began with its bundle.`,
		Example: `  kube-hyper-mini etcd --data-dir /var/lib/kube-hyper-mini-etcd`,
	}, false, appliance.RunEtcd)
}
