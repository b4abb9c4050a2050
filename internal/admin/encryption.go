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

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
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

// KeyRotator rotates the encryption key of a server.
type KeyRotator struct {
	// ConfigFile is apiServer.encryption.configFile, whose key is not rotated.
	ConfigFile string
	// File is the EncryptionConfiguration in the data directory.
	File string
	// Root is the prefix of all objects in Store.
	Root  string
	Store datastore.Datastore
	// Ready reports whether the server is ready.
	Ready func() bool
	// Backups is locked during a rotation: a backup has the objects and the keys
	// of one moment.
	Backups *backup.Maker
	// Encrypt: see [encryption.Rotation].
	Encrypt func(ctx context.Context, resource schema.GroupResource) ([]byte, error)
	Log     *slog.Logger
}

// ServeHTTP implements [http.Handler] for rotatePath.
func (k *KeyRotator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	encoder, flush := json.NewEncoder(w), http.NewResponseController(w)
	err := k.Rotate(r.Context(), func(progress encryption.Progress) error {
		logRotation(k.Log, progress)
		return errors.Join(encoder.Encode(rotateLine{Progress: progress}), flush.Flush())
	})
	if err != nil {
		_ = encoder.Encode(rotateLine{Error: err.Error()}) // the client may have disconnected; the next rotation continues
	}
}

// Rotate rotates the key while no backup is made, and calls report with its progress.
func (k *KeyRotator) Rotate(ctx context.Context, report func(encryption.Progress) error) error {
	if k.ConfigFile != "" {
		return fmt.Errorf("apiServer.encryption.configFile names %s, which the server only reads: add a key to it, "+
			"which is loaded within seconds, and have the objects rewritten by a StorageVersionMigration for each "+
			"resource", k.ConfigFile)
	}
	if !k.Ready() {
		return errors.New("the server is starting: try again when it is ready")
	}
	release, err := k.Backups.TakeTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	connection := k.Store.Connection()
	return (&encryption.Rotation{
		File: k.File, Store: connection.GatedKV(), Root: k.Root, Encrypt: k.Encrypt, Alone: k.alone, Report: report,
	}).Run(ctx)
}

// alone returns an error if other servers use the store.
func (k *KeyRotator) alone(ctx context.Context) error {
	alone, err := k.Store.Alone(ctx)
	if err != nil {
		return err
	}
	if !alone {
		return errors.New("other servers use this etcd, or did so a minute ago, and do not have the new key: stop " +
			"them, rotate, and copy encryption/config.yaml to each; or see \"kube-hyper-mini help several-servers\"")
	}
	return nil
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
	if k.ConfigFile != "" || !encryption.Interrupted(k.File) {
		return
	}
	err := k.Rotate(ctx, func(progress encryption.Progress) error {
		logRotation(k.Log, progress)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("the rotation of the encryption key is unfinished: run `kube-hyper-mini encryption rotate` when the "+
			"cause is removed", "error", err)
	}
}

// RotateKey rotates the key of the server of the kubeconfig and calls report with
// its progress.
func RotateKey(ctx context.Context, kubeconfig []byte, report func(encryption.Progress) error) error {
	return post(ctx, kubeconfig, rotatePath, func(host string, body io.Reader) error {
		for lines := json.NewDecoder(body); ; {
			line := rotateLine{}
			if err := lines.Decode(&line); err != nil {
				return fmt.Errorf("the response of the server at %s ended early (%w): the rotation continues at its next "+
					"start, or with the next `kube-hyper-mini encryption rotate`", host, err)
			}
			if line.Error != "" {
				return fmt.Errorf("the server at %s: %s", host, line.Error)
			}
			if err := report(line.Progress); err != nil || line.Phase == encryption.PhaseDone {
				return err
			}
		}
	})
}
