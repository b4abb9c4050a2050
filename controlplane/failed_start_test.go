package controlplane_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// idleLeft bounds the goroutines that upstream ends only after a server has run: those of the queues
// of controllers that were made and never run, and of quotas. Watch caches and etcd have a hundred.
const idleLeft = 30

// TestStartThatFails: a start whose API server cannot be built says why, and leaves neither
// goroutines nor the lock of the directory.
func TestStartThatFails(t *testing.T) {
	mistake := errors.New("no database")
	withStorage := func(made rest.Storage, err error) []controlplane.Resource {
		ship := boats()
		ship.Kind, ship.ShortNames, ship.NewList = "Ship", nil, nil
		ship.New = func() kuberuntime.Object { return &controlplane.Object[struct{}, struct{}]{} }
		ship.Storage = func(controlplane.StorageEnvironment) (rest.Storage, error) { return made, err }
		return []controlplane.Resource{boats(), ship}
	}
	withSubresource := func(make func(controlplane.Parent) (rest.Storage, error)) []controlplane.Resource {
		r := boats()
		r.Subresources = map[string]controlplane.Subresource{"crew": {Storage: make}}
		return []controlplane.Resource{r}
	}
	if err := start(t, controlplane.Options{}).Stop(context.Background()); err != nil { // starts what is once for the process
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		want    string
		options controlplane.Options
	}{
		"storage":     {"apiserver: make the API group sea.example.com: make the storage of ships.sea.example.com: no database", controlplane.Options{Resources: withStorage(nil, mistake)}},
		"no storage":  {"the function Storage returned nil", controlplane.Options{Resources: withStorage(nil, nil)}},
		"nil storage": {"panicked: runtime error", controlplane.Options{Resources: withStorage((*broken)(nil), nil)}},
		"subresource": {"the subresource crew: no database", controlplane.Options{Resources: withSubresource(func(controlplane.Parent) (rest.Storage, error) { return nil, mistake })}},
		"a panic of a subresource": {"a function of the program panicked: a mistake", controlplane.Options{
			Resources: withSubresource(func(controlplane.Parent) (rest.Storage, error) { panic("a mistake") })}},
		"middleware": {"Options.Middleware returned no handler", controlplane.Options{Middleware: func(http.Handler) http.Handler { return nil }}},
		"a panic of middleware": {"apiserver: a function of the program panicked: a mistake", controlplane.Options{
			Middleware: func(http.Handler) http.Handler { panic("a mistake") }}},
		"a panic of manifests": {"panicked: runtime error", controlplane.Options{Manifests: (*broken)(nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			dir := t.TempDir()
			c.options.Dir = dir
			cp, err := controlplane.New(c.options)
			if err != nil {
				t.Fatal(err)
			}
			if err := cp.Start(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the start: %v", err)
			}
			awaitGoroutines(t, before+idleLeft)
			if err := start(t, controlplane.Options{Dir: dir}).Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// broken panics in each method.
type broken struct{ fields []string }

func (b *broken) New() kuberuntime.Object      { panic(b.fields[0]) }
func (b *broken) Destroy()                     { panic(b.fields[0]) }
func (b *broken) Open(string) (fs.File, error) { panic(b.fields[0]) }

// TestDestroyThatPanics: a panic in a storage's Destroy does not end the process, and the rest is destroyed.
func TestDestroyThatPanics(t *testing.T) {
	r := boats()
	r.Subresources = map[string]controlplane.Subresource{"scale": {Storage: func(p controlplane.Parent) (rest.Storage, error) { return undestroyed{scales{p}}, nil }}}
	o := controlplane.Options{Dir: t.TempDir(), Resources: []controlplane.Resource{r}}
	if err := start(t, o).Stop(context.Background()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	start(t, o)
}

type undestroyed struct{ scales }

func (undestroyed) Destroy() { panic("a mistake") }

// TestStartWritesOnlyChanges: a start with the same configuration does not write it again: it must
// succeed on a full disk, on which reads are served.
func TestStartWritesOnlyChanges(t *testing.T) {
	dir := t.TempDir()
	var written [2]fs.FileInfo
	for i := range written {
		if err := start(t, controlplane.Options{Dir: dir}).Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		var err error
		if written[i], err = os.Stat(filepath.Join(dir, config.UsedFile)); err != nil {
			t.Fatal(err)
		}
	}
	if !os.SameFile(written[0], written[1]) {
		t.Error("the second start has replaced the file")
	}
}
