package cli

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/planes"
)

// partCommand completes a command that runs the control plane, or a part of it, in the
// foreground.
func partCommand(cmd *cobra.Command, flags *configFlags, options *controlplane.Options) *cobra.Command {
	options.OwnsProcess = true
	options.Listen = options.Part == "" || options.Part == controlplane.OnlyAPIServer
	cmd.Annotations = runsServer()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return flags.runServer(cmd, *options) }
	if options.Listen {
		flags.addServer(cmd.Flags())
	} else {
		flags.addPart(cmd.Flags())
	}
	cmd.Flags().BoolVar(&options.NewIdentity, "new-identity", false, "make new authorities and keys where a used "+
		"data directory lacks them, or for an external etcd that other servers have used; clients then need new "+
		"kubeconfigs and tokens")
	return cmd
}

// planesNeedServer is the error of a command that serves no control planes of their own, for a
// configuration with planes.enabled.
func planesNeedServer(source config.Source) error {
	return usageError(source.Locate(config.NewFieldError("planes.enabled", "needs the whole server: run "+
		"`kube-hyper-mini server`, or unset it")))
}

// runServer runs a server, or a part of one, with the configuration that the flags select.
func (f *configFlags) runServer(cmd *cobra.Command, options controlplane.Options) error {
	cfg, source, err := f.load(cmd)
	if err != nil {
		return err
	}
	switch {
	case options.Ephemeral && options.NewIdentity:
		return usageError(errors.New("--new-identity and --ephemeral exclude each other: an ephemeral server always " +
			"has a new identity"))
	case cfg.Planes.Enabled && options.Part != "":
		return planesNeedServer(source)
	case cfg.Planes.Enabled && options.Ephemeral:
		return usageError(source.Locate(config.NewFieldError("planes.enabled", "is not for --ephemeral: unset it, or "+
			"leave out --ephemeral")))
	}
	if options.Log, err = serverLog(cmd, cfg); err != nil {
		return err
	}
	adoptOrphans(cmd.Context())
	if options.Ephemeral {
		end, err := f.useTemporary(cfg, options.Log)
		if err != nil {
			return err
		}
		options.Config = cfg
		return errors.Join(located(source, controlplane.Run(cmd.Context(), options, nil)), end())
	}
	if err := cfg.Complete(); err != nil { // sets the data directory
		return usageError(source.Locate(err))
	}
	options.Config = cfg
	var server *controlplane.ControlPlane
	if cfg.Planes.Enabled {
		planes.New(planes.Config{Host: cfg, URL: func() string { return server.URL() }, Log: options.Log}).Extend(&options)
	}
	if server, err = controlplane.New(options); err != nil {
		return usageError(source.Locate(err))
	}
	return located(source, server.Run(cmd.Context(), nil)) // run alone, a part may need a field that `server` does not
}

// located makes the error of a field of the configuration a usage error.
func located(source config.Source, err error) error {
	if field := new(config.FieldError); errors.As(err, &field) {
		return usageError(source.Locate(err))
	}
	return err
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
	}, &configFlags{}, &controlplane.Options{Part: controlplane.OnlyAPIServer})
}

func newControllers() *cobra.Command {
	return partCommand(&cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers alone, with API servers in other processes",
		Long: `Run the controllers alone, with the API servers at controllerManager.server of the
configuration. Of all such processes on one etcd, the one that holds the lease runs
the controllers. The data directory must have the certificates and keys of the
API servers (the directories pki and encryption).`,
		Example: `  kube-hyper-mini controllers --config /etc/kube-hyper-mini/config.yaml`,
	}, &configFlags{}, &controlplane.Options{Part: controlplane.OnlyControllers})
}

func newEtcd() *cobra.Command {
	return partCommand(&cobra.Command{
		Use:   "etcd",
		Short: "Run the etcd member alone, for API servers in other processes",
		Long: `Run the etcd member alone. It serves on etcd.embedded.listen of the configuration,
for clients with a certificate of its own authority. API servers use
pki/etcd-ca.crt, pki/etcd-client.crt and pki/etcd-client.key of this data
directory, or copies of them.`,
		Example: `  kube-hyper-mini etcd --data-dir /var/lib/kube-hyper-mini-etcd`,
	}, &configFlags{}, &controlplane.Options{Part: controlplane.OnlyEtcd})
}
