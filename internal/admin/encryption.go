package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// rotatePath is the path that rotates the encryption key for a POST request.
const rotatePath = "/kube-hyper-mini/encryption/rotate"

// resumeInterval is the time between two attempts to continue an interrupted rotation.
const resumeInterval = time.Minute

// KeyRotated is the result of a rotation: the name of the new key, and how many objects were
// written again.
type KeyRotated struct {
	Key       string `json:"key"`
	Rewritten int    `json:"rewritten"`
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
	done, err := k.Rotate(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(done) // the client may have disconnected
}

// Rotate rotates the key while no backup is made.
func (k *KeyRotator) Rotate(ctx context.Context) (done KeyRotated, err error) {
	return k.rotate(ctx, false)
}

// rotate is Rotate. With resume, it does nothing if no rotation is unfinished.
func (k *KeyRotator) rotate(ctx context.Context, resume bool) (done KeyRotated, err error) {
	if k.ConfigFile != "" {
		return done, fmt.Errorf("apiServer.encryption.configFile names %s, which the server only reads: add a key to it, "+
			"which is loaded within seconds, and have the objects rewritten by a StorageVersionMigration for each "+
			"resource", k.ConfigFile)
	}
	if !k.Ready() {
		return done, errors.New("the server is starting: try again when it is ready")
	}
	release, err := k.Backups.TakeTurn(ctx)
	if err != nil {
		return done, err
	}
	defer release()
	if resume && !encryption.Interrupted(k.File) { // a client has rotated meanwhile
		return done, nil
	}
	connection := k.Store.Connection()
	done.Key, done.Rewritten, err = (&encryption.Rotation{
		File: k.File, Store: connection.GatedKV(), Root: k.Root, Encrypt: k.Encrypt, Alone: k.alone,
	}).Run(ctx)
	if err == nil {
		k.Log.Info("the encryption key was rotated", "key", done.Key, "rewritten", done.Rewritten)
	}
	return done, err
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

// Resume continues an interrupted rotation, in the background. It tries until ctx ends: on an
// external etcd, the server that was killed counts as another one for a minute.
func (k *KeyRotator) Resume(ctx context.Context) {
	for logged := false; k.ConfigFile == "" && encryption.Interrupted(k.File) && ctx.Err() == nil; {
		_, err := k.rotate(ctx, true)
		if err == nil {
			return
		}
		if !logged && ctx.Err() == nil {
			k.Log.Warn("the rotation of the encryption key is unfinished, trying again each minute", "error", err)
			logged = true
		}
		reconcile.Pause(ctx, resumeInterval)
	}
}

// RotateKey rotates the key of the server of the kubeconfig.
func RotateKey(ctx context.Context, kubeconfig []byte) (done KeyRotated, err error) {
	err = postJSON(ctx, kubeconfig, rotatePath, &done)
	return done, err
}
