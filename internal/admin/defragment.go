package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
)

// defragmentPath is the path that defragments the database for a POST request and
// returns the result.
const defragmentPath = "/kube-hyper-mini/defragment"

// defragmenter serves defragmentPath.
type defragmenter struct{ store datastore.Datastore }

// ServeHTTP implements [http.Handler].
func (d defragmenter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	keeper := d.store.Maintenance()
	if keeper == nil {
		http.Error(w, "the configuration has an external etcd: defragment that with etcd's own tools (etcdctl defrag)",
			http.StatusNotImplemented)
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

// Defragment defragments the database of the server of the kubeconfig.
func Defragment(ctx context.Context, kubeconfig []byte) (maintenance.Defragmented, error) {
	var done maintenance.Defragmented
	err := postJSON(ctx, kubeconfig, defragmentPath, &done)
	return done, err
}
