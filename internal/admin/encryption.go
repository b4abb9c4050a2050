package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
)

// rotatePath is the path that rotates the encryption key for a POST request. The response
// is the progress, one JSON object a line.
const rotatePath = "/kube-hyper-mini/encryption/rotate"

// rotateLine is a line of the response: progress, or the error that ended the rotation.
type rotateLine struct {
	encryption.Progress
	Error string `json:"error,omitempty"`
}

// rotatable returns an error if the server cannot rotate the key of the configuration.
func rotatable(cfg *config.ServerConfiguration) error {
	if file := cfg.APIServer.Encryption.ConfigFile; file != "" {
		return fmt.Errorf("apiServer.encryption.configFile names %s, which the server only reads: add a key to it, which is loaded within seconds, and have the objects rewritten by a StorageVersionMigration for each resource", file)
	}
	return nil
}

// onlyServer returns an error if other servers use the store.
func onlyServer(ctx context.Context, store datastore.Datastore) error {
	alone, err := store.Alone(ctx)
	if err != nil {
		return err
	}
	if !alone {
		return errors.New("other servers use this etcd, or did so a minute ago, and each needs the new key before one writes with it: stop them, rotate, and give them the new encryption/config.yaml; or in encryption/config.yaml of each, add the new key as the second one; when all have it, make it the first one; have the objects rewritten by a StorageVersionMigration for each resource; then remove the old key")
	}
	return nil
}

func encryptionFileIn(dir *datadir.Dir) string { return dir.Join("encryption", "config.yaml") }

// KeyRotator rotates the encryption key of a running server.
type KeyRotator struct {
	Config *config.ServerConfiguration
	Dir    *datadir.Dir
	// Ready reports whether the server is ready.
	Ready func() bool
	// Archiver is locked during a rotation: an archive has the objects and the keys
	// of one moment.
	Archiver *backup.Archiver
	Store    datastore.Datastore
	// Encrypt: see [encryption.Rotation].
	Encrypt func(ctx context.Context, resource schema.GroupResource) ([]byte, error)
	Log     *slog.Logger
}

// ServeHTTP implements [http.Handler] for rotatePath.
func (k *KeyRotator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := rotatable(k.Config); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	encoder, flush := json.NewEncoder(w), http.NewResponseController(w)
	err := k.rotate(r.Context(), func(progress encryption.Progress) error {
		return errors.Join(encoder.Encode(rotateLine{Progress: progress}), flush.Flush())
	})
	if err != nil {
		_ = encoder.Encode(rotateLine{Error: err.Error()}) // the client may have disconnected; the next rotation continues
	}
}

// rotate rotates the key while no archive is made.
func (k *KeyRotator) rotate(ctx context.Context, report func(encryption.Progress) error) error {
	if !k.Ready() {
		return errors.New("the server is starting: try again when it is ready")
	}
	release, err := k.Archiver.TakeTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	connection := k.Store.Connection()
	return (&encryption.Rotation{
		File: encryptionFileIn(k.Dir), Store: connection.GatedKV(), Root: k.Config.Etcd.External.Prefix,
		Encrypt: k.Encrypt, Alone: func(ctx context.Context) error { return onlyServer(ctx, k.Store) },
		Report: func(progress encryption.Progress) error {
			logRotation(k.Log, progress)
			return report(progress)
		},
	}).Run(ctx)
}

func logRotation(log *slog.Logger, progress encryption.Progress) {
	switch progress.Phase {
	case encryption.PhaseNewKey:
		log.Info("rotating the encryption key", "key", progress.Key, "continued", progress.Continued)
	case encryption.PhaseDone:
		log.Info("the encryption key was rotated", "key", progress.Key, "rewritten", progress.Rewritten)
	}
}

// Resume continues an interrupted rotation, in the background.
func (k *KeyRotator) Resume(ctx context.Context) {
	if rotatable(k.Config) != nil || !encryption.Interrupted(encryptionFileIn(k.Dir)) {
		return
	}
	err := k.rotate(ctx, func(encryption.Progress) error { return nil })
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("the rotation of the encryption key is unfinished: run `kube-hyper-mini encryption rotate` when the cause is removed", "error", err)
	}
}

// RotateKeyRunning rotates the key of the server of the kubeconfig and calls report with
// its progress.
func RotateKeyRunning(ctx context.Context, kubeconfig []byte, report func(encryption.Progress) error) error {
	response, host, err := send(ctx, kubeconfig, http.MethodPost, rotatePath, 0)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the error does not matter
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return errors.Join(unexpected(host, response, body), err)
	}
	lines := json.NewDecoder(response.Body)
	for {
		line := rotateLine{}
		if err := lines.Decode(&line); err != nil {
			return fmt.Errorf("the response of the server at %s ended early (%w): the rotation continues at its next start, or with the next `kube-hyper-mini encryption rotate`", host, err)
		}
		if line.Error != "" {
			return fmt.Errorf("the server at %s: %s", host, line.Error)
		}
		if err := report(line.Progress); err != nil {
			return err
		}
		if line.Phase == encryption.PhaseDone {
			return nil
		}
	}
}

// RotateKeyStopped rotates the key in a data directory that no server uses
// (datadir.ErrLocked if one does). The configuration has been completed.
func RotateKeyStopped(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, report func(encryption.Progress) error) error {
	if err := rotatable(cfg); err != nil {
		return err
	}
	if err := datadir.RequireUsed(cfg.DataDir); err != nil {
		return fmt.Errorf("nothing to rotate: %w", err) // before a file is written
	}
	return withStore(ctx, cfg, log, func(ctx context.Context, dir *datadir.Dir, store datastore.Datastore) error {
		if err := store.Register(ctx); err != nil {
			return err
		}
		connection := store.Connection()
		return (&encryption.Rotation{
			File: encryptionFileIn(dir), Store: connection.GatedKV(), Root: cfg.Etcd.External.Prefix, Report: report,
			Alone: func(ctx context.Context) error { return onlyServer(ctx, store) },
		}).Run(ctx)
	})
}
