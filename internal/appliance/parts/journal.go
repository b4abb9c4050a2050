package parts

import (
	"context"
	"errors"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/fleet"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/progress"
)

// JournalWriter returns the writer of the journal of a server, or nil if
// the configuration has no destination. The writer uses the store only while it runs. lead
// waits until this server runs the controllers of an external etcd.
func JournalWriter(cfg *config.ServerConfiguration, dir *datadir.Dir, stamp datadir.Stamp, store datastore.Datastore, maker *backup.Maker,
	lead func(context.Context) (context.Context, error), log *slog.Logger,
) (*journal.Writer, error) {
	if cfg.Journal.Destination == "" {
		return nil, nil
	}
	destination, err := JournalLocation(cfg, "").Open()
	if err != nil {
		return nil, err
	}
	encryption := backup.Encryption{Recipients: cfg.Backup.EncryptTo}
	writer := journal.Config{
		Store: destination, DataDir: dir.Path(), KeyFiles: map[string]string{},
		Interval: cfg.Journal.Interval.Duration, Retention: cfg.Journal.Retention.Duration,
		MaxSpool: cfg.Journal.MaxSpool.Value(), TakeOver: cfg.Journal.TakeOver, StopIfSuperseded: cfg.Journal.StopIfSuperseded,
		Encryption: encryption, Version: stamp.Version,
		Connect: store.Connection, WaitReady: store.WaitReady, Base: journal.NewBase(maker, encryption), Log: log,
	}
	for _, field := range cfg.InputFiles() {
		if field.EncryptsObjects {
			writer.KeyFiles[backup.ConfigFileName(field.Path)] = field.Value
		}
	}
	if store.Shared() {
		writer.Lead, writer.Identity = lead, func(ctx context.Context) (string, error) {
			return fleet.Name(ctx, store.Connection().Client, cfg.Etcd.External.Prefix)
		}
	}
	return journal.NewWriter(writer), nil
}

// JournalLocation returns the location of the journal at the URL; if that is empty, of
// the configured one.
func JournalLocation(cfg *config.ServerConfiguration, url string) journal.Location {
	if url == "" {
		url = cfg.Journal.Destination
	}
	return journal.Location{URL: url, Endpoint: cfg.Journal.Endpoint, Region: cfg.Journal.Region, CredentialsFile: cfg.Journal.CredentialsFile}
}

// journaledRevision is the last revision of the configured journal; 0 without one.
func journaledRevision(ctx context.Context, cfg *config.ServerConfiguration) (int64, error) {
	if cfg.Journal.Destination == "" {
		return 0, nil
	}
	store, err := JournalLocation(cfg, "").Open()
	if err != nil {
		return 0, err
	}
	return journal.LastRevision(ctx, store)
}

// RestoreRequest selects a state of a journal.
type RestoreRequest struct {
	Location journal.Location
	Target   journal.Target
	Key      backup.Key
	// Planned is called before anything is made; its error ends the restore.
	Planned func(*journal.Plan) error
	// Prepared is called when the journal is verified and nothing is replaced yet.
	Prepared func(*journal.Outcome, *backup.Manifest)
	// Say shows a message to the user.
	Say func(format string, args ...any)
	// Fetched counts the bytes of the base that were read.
	Fetched *progress.Counter
	// Progress is called after each segment.
	Progress func(done, total int)
}

// RestoreJournal makes a state of a journal the content of the
// configuration's data directory, with what [Restore] guarantees. The configuration
// has been completed.
func RestoreJournal(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, request RestoreRequest) (*backup.Restored, error) {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return nil, errors.New("the configuration has an external etcd: restore into a data directory of an embedded one, save a backup of that, and see \"Out of the embedded etcd\" in \"kube-hyper-mini help several-servers\"")
	}
	store, err := request.Location.Open()
	if err != nil {
		return nil, err
	}
	plan, err := journal.NewPlan(ctx, store, request.Target)
	if err != nil {
		return nil, err
	}
	if err := request.Planned(plan); err != nil {
		return nil, err
	}
	last, err := journal.LastRevision(ctx, store)
	if err != nil {
		return nil, err
	}
	restoration := &journal.Restoration{Plan: plan, Key: request.Key, Say: request.Say, Fetched: request.Fetched, Progress: request.Progress}
	restore := restoreConfig(cfg, store.String(), request.Key)
	restore.Describe, restore.Prefix = true, cfg.Etcd.External.Prefix
	restore.Fetch = func(dir string) (string, error) { return restoration.Fetch(ctx, dir) }
	restore.Snapshot = func(snapshot, content, dir string) error {
		if err := restoration.Replay(ctx, snapshot, content); err != nil {
			return err
		}
		return etcd.RestoreSnapshot(snapshot, dir, last, logging.Zap(log, cfg.Logging.Verbosity))
	}
	restore.Prepared = func(m *backup.Manifest) { request.Prepared(&restoration.Outcome, m) }
	return backup.Restore(ctx, restore)
}
