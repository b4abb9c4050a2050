package endpoints

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/client-go/tools/cache"
)

// TestDeniedTargetsAreForgotten: a target that is not allowed is logged once, and forgotten
// with its object, as is the health that a late probe has recorded.
func TestDeniedTargetsAreForgotten(t *testing.T) {
	var logged bytes.Buffer
	p := &prober{resolver: newResolver(t), store: cache.NewStore(cache.MetaNamespaceKeyFunc), log: slog.New(slog.NewTextHandler(&logged, nil))}
	deny := func(target string, want int) {
		t.Helper()
		if err := p.statusError(ref, target, &DeniedError{Target: target}); err == nil {
			t.Error("the status has no error")
		}
		if got := strings.Count(logged.String(), "not allowed"); got < want || strings.Count(logged.String(), "\n") != want {
			t.Errorf("%s: %d lines, want %d:\n%s", target, got, want, logged.String())
		}
	}
	deny("10.0.0.1:1", 1)
	deny("10.0.0.1:1", 1)
	deny("10.0.0.2:1", 2)
	p.keepDenied(ref, []string{"10.0.0.2:1"})
	deny("10.0.0.2:1", 2)
	deny("10.0.0.1:1", 3)
	p.resolver.healthOf(ref)
	if done, err := p.probe(t.Context(), ref); !done || err != nil {
		t.Errorf("an object that does not exist: %t, %v", done, err)
	}
	p.denied.ForgetFunc(func(key string) bool {
		t.Errorf("the denied target is left: %s", key)
		return false
	})
	if len(p.resolver.healths) != 0 {
		t.Errorf("left: %d healths", len(p.resolver.healths))
	}
}
