package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
)

// runEphemeral runs a server whose data is removed when it ends.
func runEphemeral(cmd *cobra.Command, flags *configFlags) error {
	if cmd.Flags().Changed("new-identity") {
		return usageError(errors.New("--new-identity and --ephemeral exclude each other: an ephemeral server always has a new identity"))
	}
	cfg, source, err := flags.load(cmd)
	if err != nil {
		return err
	}
	log, err := serverLog(cmd, cfg)
	if err != nil {
		return err
	}
	adoptOrphans(cmd.Context())
	if flags.dataDir == "" && flags.file == "" {
		cfg.DataDir = "" // that of the variable has data that is kept
	}
	if cfg.DataDir == "" {
		err = serveInTemporary(cmd, cfg, log)
	} else {
		err = serveInEmpty(cmd, cfg, log)
	}
	if field := new(config.FieldError); errors.As(err, &field) {
		return usageError(source.Locate(err))
	}
	return err
}

// serveInTemporary runs the server in a temporary directory.
func serveInTemporary(cmd *cobra.Command, cfg *config.ServerConfiguration, log *slog.Logger) error {
	server, err := testplane.NewServer(testplane.ServerOptions{Config: cfg, Logger: log})
	if err != nil {
		return err
	}
	if err = server.Start(cmd.Context()); err == nil {
		err = <-server.Failed()
	}
	closeErr := server.Close(context.WithoutCancel(cmd.Context()))
	if errors.Is(closeErr, testplane.ErrLeft) {
		log.Warn(closeErr.Error())
		closeErr = nil
	}
	return errors.Join(err, closeErr)
}

// serveInEmpty runs the server in the named directory.
func serveInEmpty(cmd *cobra.Command, cfg *config.ServerConfiguration, log *slog.Logger) error {
	testplane.Configure(cfg)
	checked, err := appliance.Check(cfg)
	if err != nil {
		return usageError(err)
	}
	datadir.DisableSync(cfg.DataDir)
	checked.Ephemeral()
	checked.AsProgram()
	return appliance.Run(cmd.Context(), checked, log)
}
