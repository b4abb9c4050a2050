package cli

import (
	"errors"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
)

// useTemporary makes a directory for a server whose data is removed when it ends, unless the
// configuration or a flag names one. The caller calls end when the server has ended.
func (f *configFlags) useTemporary(cfg *config.ServerConfiguration, log *slog.Logger) (end func() error, err error) {
	if f.dataDir == "" && f.file == "" {
		cfg.DataDir = "" // that of the variable has data that is kept
	}
	if cfg.DataDir != "" {
		return func() error { return nil }, nil
	}
	dir, err := testplane.NewDirectory(false)
	if err != nil {
		return nil, err
	}
	cfg.DataDir = dir.Data()
	return func() error {
		err := dir.Close()
		if errors.Is(err, temporary.ErrLeft) {
			log.Warn(err.Error())
			return nil
		}
		return err
	}, nil
}
