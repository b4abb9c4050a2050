package controlplane_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// startEtcd runs etcd alone and returns the configuration of control planes that share it.
func startEtcd(t *testing.T) config.ExternalEtcd {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	dir, cfg := t.TempDir(), config.Default()
	cfg.Etcd.Embedded.Listen, cfg.Etcd.Embedded.Fsync = address, false
	start(t, controlplane.Options{Part: controlplane.OnlyEtcd, Dir: dir, Config: cfg})
	pki := filepath.Join(dir, "pki")
	return config.ExternalEtcd{
		Endpoints: []string{"https://" + address}, Prefix: cfg.Etcd.External.Prefix,
		CAFile: filepath.Join(pki, "etcd-ca.crt"), CertFile: filepath.Join(pki, "etcd-client.crt"), KeyFile: filepath.Join(pki, "etcd-client.key"),
	}
}

// TestControllersOfSharedStores: of the control planes on one etcd, one runs the controllers of
// the program; when it stops, after they have returned, another one does.
func TestControllersOfSharedStores(t *testing.T) {
	etcd := startEtcd(t)
	var running atomic.Int32
	started := make(chan int, 2)
	planes, dirs := make([]*controlplane.ControlPlane, 2), []string{t.TempDir(), t.TempDir()}
	for i := range planes {
		cfg := config.Default()
		cfg.Etcd.External = etcd
		planes[i] = start(t, controlplane.Options{Dir: dirs[i], Config: cfg, Controllers: []controlplane.Controller{{
			Name: "counter", Run: func(ctx context.Context, _ *rest.Config) error {
				if running.Add(1) > 1 {
					return errors.New("two controllers run at once")
				}
				started <- i
				<-ctx.Done()
				running.Add(-1)
				return nil
			},
		}}})
		if i == 0 { // the other one has the same authorities and keys
			for _, name := range []string{"pki", "encryption"} {
				if err := os.CopyFS(filepath.Join(dirs[1], name), os.DirFS(filepath.Join(dirs[0], name))); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
		}
	}
	leader := <-started
	if err := planes[leader].Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if next := <-started; next == leader {
		t.Errorf("the control plane %d runs its controller after its stop", next)
	}
}
