package manifests

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
)

// patience is how long a test waits for what must happen, of the fake clock.
const patience = time.Minute

func TestRemovedDirectoryIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "manifests")
		mkdir := func() {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		mkdir()
		a := &Applier{Config: Config{Dir: dir, Log: slog.New(slog.DiscardHandler)},
			client: fake.NewSimpleDynamicClient(runtime.NewScheme())}
		ctx, cancel := context.WithCancel(context.Background())
		reports, ended := make(chan error, 100), make(chan struct{})
		go func() {
			defer close(ended)
			a.follow(ctx, func(result applied) { reports <- errors.Join(result.failed...) })
		}()
		next := func(what string, failed bool) {
			t.Helper()
			select {
			case err := <-reports:
				if (err != nil) != failed {
					t.Fatalf("%s: %v", what, err)
				}
			case <-time.After(patience):
				t.Fatalf("%s: no report", what)
			}
		}
		next("an empty directory", false)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		next("no directory", true)
		mkdir()
		for err := range reports { // tries in between may have failed
			if err == nil {
				break
			}
		}
		cancel()
		<-ended
	})
}

// TestFailuresAreCountedOnce: a failure whose text has several lines is one.
func TestFailuresAreCountedOnce(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"lines.yaml": "a: 1\na: 2\nb: 1\nb: 2\n", // two lines of one error
		"two.yaml":   "kind: ConfigMap\n---\nkind: ConfigMap\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := scan(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	a := &Applier{Config: Config{Dir: dir, Log: slog.New(slog.DiscardHandler)},
		client: fake.NewSimpleDynamicClient(runtime.NewScheme())}
	result := a.round(t.Context(), files, true)
	text := errors.Join(result.failed...).Error()
	if lines := strings.Count(text, "\n") + 1; len(result.failed) != 3 || lines < 4 {
		t.Errorf("%d failures in %d lines:\n%s", len(result.failed), lines, text)
	}
}

// TestKindsThatAreNotServed: the error says how the kind can be served.
func TestKindsThatAreNotServed(t *testing.T) {
	for group, want := range map[string]string{"": "apis.profile: kubernetes", "apps": "apis.profile: kubernetes", "networking.k8s.io": "its CRD is missing, or it needs apis.profile: kubernetes", "example.org": "its CRD is missing, or has other versions"} {
		gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}
		cause := &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{"v1"}}
		if err := notServed(gvk, cause); !strings.Contains(err.Error(), want) || !meta.IsNoMatchError(err) {
			t.Errorf("group %q: %v, want %q", group, err, want)
		}
	}
}
