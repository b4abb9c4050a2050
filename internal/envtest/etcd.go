package envtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

const (
	// storePath is the path at which etcd returns the store to kube-apiserver.
	storePath = "/kube-hyper-mini/store"
	// askTimeout bounds a request to etcd.
	askTimeout = 10 * time.Second
	// closeTimeout bounds the wait for open requests at the end.
	closeTimeout = time.Second
)

// store configures the database of kube-apiserver.
type store struct {
	DataDir string `json:"dataDir"`
	Fsync   bool   `json:"fsync"`
	Quota   int64  `json:"quotaBackendBytes"` // 0 is the default
}

// EtcdServer is etcd for envtest.
type EtcdServer struct {
	// Help is the text for --help; it is empty unless --help was given.
	Help   string
	store  store
	listen []*url.URL
}

// NewEtcd reads the command line of etcd. Errors name the flag.
func NewEtcd(args []string) (*EtcdServer, error) {
	flags := pflag.NewFlagSet(Etcd, pflag.ContinueOnError)
	flags.Usage = func() {} // the error is enough
	e := &EtcdServer{}
	clients := flags.StringSlice("listen-client-urls", []string{"http://localhost:2379"}, "URLs to answer on, with http")
	flags.StringSlice("advertise-client-urls", nil, "accepted; it has no effect")
	flags.StringSlice("listen-peer-urls", nil, "accepted; there are no peers")
	noFsync := flags.Bool("unsafe-no-fsync", false, "whether a write may be acknowledged before it is on disk")
	flags.StringVar(&e.store.DataDir, "data-dir", "default.etcd", "directory of the data")
	flags.Int64Var(&e.store.Quota, "quota-backend-bytes", 0,
		"size of the database at which writes are refused; 0 is the default")
	for _, name := range []string{"name", "log-level", "logger", "log-outputs"} {
		flags.String(name, "", "accepted; it has no effect")
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		e.Help = "etcd of kube-hyper-mini, for envtest. It answers health checks; the database is in the process of " +
			"kube-apiserver.\n\n" + flags.FlagUsages()
		return e, nil
	case err != nil:
		return nil, fmt.Errorf("etcd: %w; it accepts the flags that envtest uses, see --help", err)
	case flags.NArg() > 0:
		return nil, fmt.Errorf("etcd: %q is not a flag", flags.Arg(0))
	}
	e.store.Fsync = !*noFsync
	for _, text := range *clients {
		address, err := url.Parse(text)
		if err != nil || address.Scheme != "http" || address.Host == "" {
			return nil, fmt.Errorf("etcd: --listen-client-urls: %q is not served: write http://HOST:PORT", text)
		}
		e.listen = append(e.listen, address)
	}
	if e.store.DataDir, err = filepath.Abs(e.store.DataDir); err != nil {
		return nil, fmt.Errorf("etcd: --data-dir: %w", err)
	}
	return e, nil
}

// Run answers until ctx ends, or until the test program ends that has started this process
// with a temporary directory, which Run then removes (see [Owner]).
func (e *EtcdServer) Run(ctx context.Context) error {
	owner, err := newOwner(e.store.DataDir, filepath.Join(e.store.DataDir, subdirectory))
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return owner.Run(ctx, e.serve)
}

func (e *EtcdServer) serve(ctx context.Context) error {
	if err := os.MkdirAll(e.store.DataDir, 0o700); err != nil {
		return fmt.Errorf("etcd: make the data directory: %w", err)
	}
	server := &http.Server{Handler: e.handler(), ReadHeaderTimeout: askTimeout}
	failed := make(chan error, len(e.listen))
	for _, address := range e.listen {
		listener, err := net.Listen("tcp", address.Host)
		if err != nil {
			return errors.Join(fmt.Errorf("etcd: %w", err), server.Close())
		}
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("etcd: %w", err), server.Close())
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return server.Close()
	}
	return nil
}

// handler answers health checks as etcd does, and returns the store.
func (e *EtcdServer) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, value any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
		})
	}
	answer("/health", map[string]string{"health": "true", "reason": ""})
	answer("/version", map[string]string{"etcdserver": version.Etcd(), "etcdcluster": version.Etcd()})
	answer(storePath, e.store)
	return mux
}

// askStore gets the store from the etcd at the URL. It returns nil if the URL is that
// of a real etcd.
func askStore(ctx context.Context, etcd string) (*store, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, etcd+storePath, nil)
	if err != nil {
		return nil, fmt.Errorf("--etcd-servers: %q is not a URL: %w", etcd, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("--etcd-servers: %w; start etcd first", err)
	}
	defer func() { _ = response.Body.Close() }() // the error does not matter
	found := &store{}
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(found) != nil || found.DataDir == "" {
		return nil, nil
	}
	return found, nil
}
