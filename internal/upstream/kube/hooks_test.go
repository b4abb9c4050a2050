package kube

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
)

// TestHooksExist: Kubernetes ignores the name of a hook that it does not
// have.
func TestHooksExist(t *testing.T) {
	for hook, path := range map[string]string{
		IdentityLeaseHook:   "k8s.io/kubernetes/pkg/controlplane/apiserver",
		IdentityLeaseGCHook: "k8s.io/kubernetes/pkg/controlplane/apiserver",
		TokenTrackingHook:   "k8s.io/kubernetes/pkg/controlplane/apiserver",
		DiscoveryHook:       "k8s.io/kube-aggregator/pkg/apiserver",
		DocumentsHook:       "k8s.io/kube-aggregator/pkg/apiserver",
		RemoteHook:          "k8s.io/kube-aggregator/pkg/apiserver",
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.TrimSpace(string(out))
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		found := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(source), strconv.Quote(hook))
		}
		if !found {
			t.Errorf("no file in %s has the hook %q", dir, hook)
		}
	}
}

// TestGuardHooks: a hook that fails does not end the process, and one that fails because its
// server stops is no failure. Only that of the identity lease ends when the stop begins.
func TestGuardHooks(t *testing.T) {
	c := genericapiserver.NewConfig(serializer.NewCodecFactory(runtime.NewScheme()))
	c.LoopbackClientConfig, c.ExternalAddress, c.EffectiveVersion = &rest.Config{}, "localhost:1", compatibility.DefaultBuildEffectiveVersion()
	server, err := c.Complete(nil).New("test", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	stopped, leaseEnded, other := make(chan struct{}), make(chan struct{}), make(chan context.Context, 1)
	hooks := map[string]genericapiserver.PostStartHookFunc{
		"fails": func(genericapiserver.PostStartHookContext) error { return errors.New("for good") },
		"stops": func(hook genericapiserver.PostStartHookContext) error {
			defer close(stopped)
			other <- hook.Context
			<-hook.Done()
			return hook.Err()
		},
		IdentityLeaseHook: func(hook genericapiserver.PostStartHookContext) error {
			defer close(leaseEnded)
			<-hook.Done()
			return nil
		},
	}
	for name, hook := range hooks {
		if err := server.AddPostStartHook(name, hook); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error, len(hooks))
	stop, stopBegins := context.WithCancel(t.Context())
	defer stopBegins()
	if err := GuardHooks(stop, server, func(err error) { failed <- err }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server.RunPostStartHooks(ctx)
	if err := <-failed; !strings.Contains(err.Error(), "the post-start hook fails failed: for good") {
		t.Error(err)
	}
	stopBegins()
	<-leaseEnded
	if (<-other).Err() != nil {
		t.Error("another hook than that of the identity lease ends before the requests are drained")
	}
	cancel()
	<-stopped
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}
