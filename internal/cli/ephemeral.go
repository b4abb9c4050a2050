package cli

import (
	"context"
	"errors"

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
		return usageError(source.Locate(config.NewFieldError("planes.enabled",
			"is not for --ephemeral: unset it, or leave out --ephemeral")))
	}
	log, err := serverLog(cmd, cfg)
	if err != nil {
		return err
	}
	adoptOrphans(cmd.Context())
	if flags.dataDir == "" && flags.file == "" {
		cfg.DataDir = "" // that of the variable has data that is kept
	}
	var temporaryDir *testplane.Directory
	if cfg.DataDir == "" {
		if temporaryDir, err = testplane.NewDirectory(false); err != nil {
			return err
		}
		cfg.DataDir = temporaryDir.Data()
	}
	err = controlplane.Run(cmd.Context(), controlplane.Options{Config: cfg, Ephemeral: true, Listen: true,
		OwnsProcess: true, Log: log}, nil)
	if temporaryDir != nil {
		closeErr := temporaryDir.Close(context.WithoutCancel(cmd.Context()))
		if errors.Is(closeErr, temporary.ErrLeft) {
			log.Warn(closeErr.Error())
			closeErr = nil
		}
		err = errors.Join(err, closeErr)
	}
	if field := new(config.FieldError); errors.As(err, &field) {
		return usageError(source.Locate(err))
	}
	return err
}
