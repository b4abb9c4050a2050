package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
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
	if cfg.Planes.Enabled {
		return usageError(source.Locate(config.NewFieldError("planes.enabled", "is not for --ephemeral: unset it, or leave out --ephemeral")))
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
		err = controlplane.Run(cmd.Context(), controlplane.Options{Config: cfg, Ephemeral: true, Listen: true, OwnsProcess: true, Log: log}, nil)
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
	started, err := server.Start(cmd.Context())
	if err == nil {
		err = <-started
	}
	if err == nil {
		select {
		case <-server.Done():
		case <-cmd.Context().Done():
		}
	}
	if server.ControlPlane != nil { // its error has precedence: a start that a signal has ended is no failure
		err = server.Stop(context.WithoutCancel(cmd.Context()))
	}
	closeErr := server.Close(context.WithoutCancel(cmd.Context()))
	if errors.Is(closeErr, temporary.ErrLeft) {
		log.Warn(closeErr.Error())
		closeErr = nil
	}
	return errors.Join(err, closeErr)
}
