package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// RestoreIfEmpty restores the newest state of the configured journal if journal.restoreIfEmpty
// is set and no server has used the data directory. It refuses that while another server
// writes the journal, and if it would leave out later changes that could be mended. A
// destination without a journal leaves the directory empty; one that does not exist is an error:
// its disk may not be mounted.
func RestoreIfEmpty(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger) error {
	if !cfg.Journal.RestoreIfEmpty || cfg.Journal.Destination == "" || len(cfg.Etcd.External.Endpoints) > 0 {
		return nil
	}
	stamp, err := datadir.ReadStamp(cfg.DataDir)
	if err != nil || stamp != nil || etcd.Exists(filepath.Join(cfg.DataDir, "etcd")) { // its stamp was removed
		return err
	}
	store, err := JournalLocation(cfg, "").Open()
	if err != nil {
		return err
	}
	if _, err := os.Stat(store.String()); err != nil && filepath.IsAbs(store.String()) { // not in a bucket
		return fmt.Errorf("journal.restoreIfEmpty: find the journal: %w: mount its disk, or make it for a first start", err)
	}
	if chains, err := journal.Chains(ctx, store); err != nil {
		return err
	} else if len(chains) == 0 {
		log.Warn("journal.restoreIfEmpty: the destination has no journal: this server starts empty", "destination", store)
		return nil
	}
	log.Info("the data directory is empty: restoring from the journal", "destination", store)
	say := func(format string, args ...any) {
		if warning, found := strings.CutPrefix(fmt.Sprintf(format, args...), "WARNING: "); found {
			log.Warn(warning)
		} else {
			log.Info(warning)
		}
	}
	if err := journal.WaitUnused(ctx, store, say); err != nil {
		return fmt.Errorf("journal.restoreIfEmpty: %w", err)
	}
	_, err = Restore(ctx, cfg, log, journal.RestoreConfig{Store: store, Whole: true, Say: say})
	if broken := (*journal.BrokenError)(nil); errors.As(err, &broken) {
		return fmt.Errorf("journal.restoreIfEmpty: restore %s: %w: mend the journal, or restore what is before that (a "+
			"bucket also needs --config): kube-hyper-mini backup restore --data-dir %s --from %s --revision %d", store,
			broken, logging.ShellWord(cfg.DataDir), logging.ShellWord(store.String()), broken.Last)
	}
	return err
}
