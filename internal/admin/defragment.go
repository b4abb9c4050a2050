package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
)

// defragmentPath is the path that defragments the database for a POST request and
// returns the result.
const defragmentPath = "/kube-hyper-mini/defragment"

// errExternal is the error of a defragmentation of an external etcd.
var errExternal = errors.New("the configuration has an external etcd: defragment that with etcd's own tools (etcdctl defrag)")

// defragmenter serves defragmentPath.
type defragmenter struct{ store datastore.Datastore }

// ServeHTTP implements [http.Handler].
func (d defragmenter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	keeper := d.store.Maintenance()
	if keeper == nil {
		http.Error(w, errExternal.Error(), http.StatusNotImplemented)
		return
	}
	done, err := keeper.Defragment(r.Context())
	switch {
	case errors.Is(err, maintenance.ErrDisk):
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(done) // the client may have disconnected
	}
}

// DefragmentRunning defragments the database of the server of the kubeconfig.
func DefragmentRunning(ctx context.Context, kubeconfig []byte) (maintenance.Defragmented, error) {
	var done maintenance.Defragmented
	err := postJSON(ctx, kubeconfig, defragmentPath, &done)
	return done, err
}

// DefragmentStopped defragments the database in a data directory that no
// server uses (datadir.ErrLocked if one does). The configuration has been
// completed.
func DefragmentStopped(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger) (done maintenance.Defragmented, err error) {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return done, errExternal
	}
	if err := datadir.RequireUsed(cfg.DataDir); err != nil {
		return done, fmt.Errorf("nothing to defragment: %w", err) // before a file is written
	}
	err = withStore(ctx, cfg, log, func(ctx context.Context, _ *datadir.Dir, store datastore.Datastore) error {
		done, err = store.Maintenance().Defragment(ctx)
		return err
	})
	return done, err
}
