package parts

import (
	"cmp"
	"context"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/fleet"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// JournalWriter returns the writer of the journal of a server, or nil if
// the configuration has no destination. The writer uses the store only while it runs. lead
// waits until this server runs the controllers of an external etcd.
func JournalWriter(cfg *config.ServerConfiguration, dir *datadir.Dir, stamp datadir.Stamp,
	store datastore.Datastore, maker *backup.Maker,
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
		MaxSpool: cfg.Journal.MaxSpool.Value(), TakeOver: cfg.Journal.TakeOver,
		StopIfSuperseded: cfg.Journal.StopIfSuperseded, Encryption: encryption, Version: stamp.Version,
		Connect: store.Connection, WaitReady: store.WaitReady, Log: log,
		Base: func(ctx context.Context, chain, key, path string) (*backup.Manifest, error) {
			return backup.Save(ctx, path, encryption, maker.Produce(backup.Options{Reason: backup.ReasonJournal, Chain: chain,
				ChainKey: key}))
		},
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
	return journal.Location{URL: cmp.Or(url, cfg.Journal.Destination), Endpoint: cfg.Journal.Endpoint,
		Region: cfg.Journal.Region, CredentialsFile: cfg.Journal.CredentialsFile}
}

// lastRevision is the last revision of the configured journal; 0 without one.
func lastRevision(ctx context.Context, cfg *config.ServerConfiguration) (int64, error) {
	if cfg.Journal.Destination == "" {
		return 0, nil
	}
	store, err := JournalLocation(cfg, "").Open()
	if err != nil {
		return 0, err
	}
	return journal.LastRevision(ctx, store)
}
