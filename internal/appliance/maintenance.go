package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/maintenance"
)

// defragmentPath defragments the database at a POST and answers with what it
// has done.
const defragmentPath = "/kube-hyper-mini/defragment"

// errExternal says who looks after a store that is not ours.
var errExternal = errors.New("the configuration has an external etcd, which is defragmented with etcd's own tools (etcdctl defrag)")

// refusal says why writes are refused, or nothing.
func (s *server) refusal() error {
	if keeper := s.store.maintenance(); keeper != nil && keeper.Refusal() != "" {
		return errors.New(keeper.Refusal())
	}
	return nil
}

// defragmenter serves defragmentPath.
type defragmenter struct{ store store }

// ServeHTTP implements [http.Handler].
func (d defragmenter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "the database is defragmented at a POST", http.StatusMethodNotAllowed)
		return
	}
	keeper := d.store.maintenance()
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
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return done, fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return done, fmt.Errorf("read the kubeconfig: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+defragmentPath, nil)
	if err != nil {
		return done, fmt.Errorf("ask %s: %w", config.Host, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return done, fmt.Errorf("the server at %s does not answer: %w", config.Host, err)
	}
	defer func() { _ = response.Body.Close() }() // read to the end or given up
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return done, fmt.Errorf("read the answer of %s: %w", config.Host, err)
	}
	if response.StatusCode != http.StatusOK {
		return done, fmt.Errorf("the server at %s answers %s: %s", config.Host, response.Status, strings.TrimSpace(string(body)))
	}
	if err := json.Unmarshal(body, &done); err != nil {
		return done, fmt.Errorf("read the answer of %s: %w", config.Host, err)
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
	if err := datadir.Removable(cfg.DataDir); err != nil {
		return done, fmt.Errorf("nothing to defragment: %w", err) // before anything is made
	}
	dir, err := datadir.Open(cfg.DataDir, currentStamp())
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	store := newStore(cfg, dir, log)
	if err := store.Start(ctx); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, store.Stop(context.WithoutCancel(ctx))) }()
	starting, cancel := context.WithTimeout(ctx, storeStart)
	defer cancel()
	if err := store.waitReady(starting); err != nil {
		return done, err
	}
	return store.maintenance().Defragment(ctx)
}
