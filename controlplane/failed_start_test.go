package controlplane_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// idleLeft bounds the goroutines that upstream ends only after a server has run: those of the queues
// of controllers that were made and never run, and of quotas. Watch caches and etcd have a hundred.
const idleLeft = 20

// TestStartThatFails: a start whose API server cannot be built says why, and leaves neither
// goroutines nor the lock of the directory.
func TestStartThatFails(t *testing.T) {
	mistake := errors.New("no database")
	withStorage, withSubresource := boats(), boats()
	withStorage.Kind, withStorage.ShortNames, withStorage.NewList = "Ship", nil, nil
	withStorage.New = func() kuberuntime.Object { return &controlplane.Object[struct{}, struct{}]{} }
	withStorage.Storage = func(controlplane.StorageEnvironment) (rest.Storage, error) { return nil, mistake }
	withSubresource.Subresources = map[string]controlplane.Subresource{
		"crew": {Storage: func(controlplane.Parent) (rest.Storage, error) { return nil, mistake }},
	}
	if err := start(t, controlplane.Options{}).Stop(context.Background()); err != nil { // starts what is once for the process
		t.Fatal(err)
	}
	for name, resources := range map[string][]controlplane.Resource{
		"storage": {boats(), withStorage}, "subresource": {withSubresource},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			dir := t.TempDir()
			cp, err := controlplane.New(controlplane.Options{Dir: dir, Resources: resources})
			if err != nil {
				t.Fatal(err)
			}
			if err := cp.Start(t.Context()); !errors.Is(err, mistake) || !strings.HasPrefix(err.Error(), "apiserver: make the API group") {
				t.Errorf("the start: %v", err)
			}
			awaitGoroutines(t, before+idleLeft)
			if err := start(t, controlplane.Options{Dir: dir}).Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
