package endpoints

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/client-go/tools/cache"
)

// TestDeniedTargetsAreForgotten: targets that are not allowed are logged once, and forgotten
// with their object, as is the health that a late probe has recorded.
func TestDeniedTargetsAreForgotten(t *testing.T) {
	var logged bytes.Buffer
	p := &prober{resolver: newResolver(t), store: cache.NewStore(cache.MetaNamespaceKeyFunc), log: slog.New(slog.NewTextHandler(&logged, nil))}
	deny := func(want int, targets ...string) {
		t.Helper()
		errs := []error{nil, errors.New("refused")}
		for _, target := range targets {
			errs = append(errs, fmt.Errorf("dial: %w", &DeniedError{Target: target}))
		}
		p.logDenied(ref, append([]string{"ok", "refused"}, targets...), errs)
		if got := strings.Count(logged.String(), "has a target that is not allowed"); got != want || strings.Count(logged.String(), "\n") != want {
			t.Errorf("%s: %d lines, want %d:\n%s", targets, got, want, logged.String())
		}
	}
	deny(0)
	deny(1, "10.0.0.1:1")
	deny(1, "10.0.0.1:1")
	deny(2, "10.0.0.1:1", "10.0.0.2:1")
	deny(3, "10.0.0.2:1")
	deny(3)
	deny(3, "10.0.0.2:1") // a name that resolves now and then
	p.resolver.healthOf(ref)
	if done, err := p.probe(t.Context(), ref); !done || err != nil {
		t.Errorf("an object that does not exist: %t, %v", done, err)
	}
	if _, known := p.denied.Swap(ref.String(), ""); known {
		t.Error("the denied targets are left")
	}
	if len(p.resolver.healths) != 0 {
		t.Errorf("left: %d healths", len(p.resolver.healths))
	}
}

// TestStatusHidesAddresses: authors of objects do not learn the addresses of names.
func TestStatusHidesAddresses(t *testing.T) {
	denied := &DeniedError{Target: "10.0.0.1:1"}
	if err := statusError(denied.Target, denied); !errors.Is(err, denied) {
		t.Errorf("a denied address: %v", err)
	}
	if err := statusError("a.example:1", &DeniedError{Target: "a.example:1", Resolved: true}); err.Error() != "a.example:1 is not reachable" {
		t.Errorf("a name with a denied address: %v", err)
	}
}
