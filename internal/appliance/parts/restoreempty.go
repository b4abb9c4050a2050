package parts

import (
	"context"
	"fmt"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/archive"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// RestoreIfEmpty restores the newest state of the configured archive if archive.restoreIfEmpty
// is set and no server has used the data directory. It refuses that while another server
// writes the archive. A destination without an archive leaves the directory empty.
func RestoreIfEmpty(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger) error {
	if !cfg.Archive.RestoreIfEmpty || cfg.Archive.Destination == "" || len(cfg.Etcd.External.Endpoints) > 0 {
		return nil
	}
	if stamp, err := datadir.ReadStamp(cfg.DataDir); err != nil || stamp != nil {
		return err
	}
	store, err := ArchiveLocation(cfg, "").Open()
	if err != nil {
		return err
	}
	chains, err := archive.Chains(ctx, store)
	if err != nil || len(chains) == 0 {
		return err
	}
	log.Info("the data directory is empty: restoring from the archive", "destination", store)
	if err := archive.WaitUnused(ctx, store); err != nil {
		return fmt.Errorf("archive.restoreIfEmpty: %w", err)
	}
	_, err = RestoreContinuous(ctx, cfg, log, RestoreRequest{
		Location: ArchiveLocation(cfg, ""),
		Say:      func(format string, args ...any) { log.Info(fmt.Sprintf(format, args...)) },
		Planned:  func(*archive.Plan) error { return nil },
		Prepared: func(outcome *archive.Outcome, _ *backup.Manifest) {
			log.Info("restored from the archive", "destination", store, "revision", outcome.Revision, "of", outcome.Time)
			if outcome.Broken != nil {
				log.Warn("the rest of the archive cannot be restored", "destination", store, "error", outcome.Broken)
			}
		},
	})
	return err
}
