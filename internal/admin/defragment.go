package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
)

// defragmentPath defragments the database at a POST and answers with what it
// has done.
const defragmentPath = "/kube-hyper-mini/defragment"

// errExternal says who looks after a store that is not ours.
var errExternal = errors.New("the configuration has an external etcd, which is defragmented with etcd's own tools (etcdctl defrag)")

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
		_ = json.NewEncoder(w).Encode(done) // the client may have gone; it is done all the same
	}
}

// DefragmentRunning asks the server that the kubeconfig points to.
func DefragmentRunning(ctx context.Context, kubeconfig []byte) (maintenance.Defragmented, error) {
	var done maintenance.Defragmented
	response, host, err := ask(ctx, kubeconfig, http.MethodPost, defragmentPath, 0)
	if err != nil {
		return done, err
	}
	defer func() { _ = response.Body.Close() }() // read to the end or given up
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return done, fmt.Errorf("read the answer of %s: %w", host, err)
	}
	if response.StatusCode != http.StatusOK {
		return done, unexpected(host, response, body)
	}
	if err := json.Unmarshal(body, &done); err != nil {
		return done, fmt.Errorf("read the answer of %s: %w", host, err)
	}
	return done, nil
}

// DefragmentStopped defragments the database in a data directory that no
// server uses (datadir.ErrLocked if one does). The configuration has been
// completed.
func DefragmentStopped(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger) (done maintenance.Defragmented, err error) {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return done, errExternal
	}
	if err := datadir.RequireUsed(cfg.DataDir); err != nil {
		return done, fmt.Errorf("nothing to defragment: %w", err) // before anything is made
	}
	err = withStore(ctx, cfg, log, func(ctx context.Context, _ *datadir.Dir, store datastore.Datastore) error {
		done, err = store.Maintenance().Defragment(ctx)
		return err
	})
	return done, err
}
