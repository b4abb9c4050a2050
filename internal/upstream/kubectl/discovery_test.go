package kubectl

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestKeepDiscovery: kubectl uses the client that decodes once, until it is invalidated.
func TestKeepDiscovery(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = io.WriteString(w, `{"kind": "APIVersions", "versions": ["v1"]}`) // the client notices
		case "/apis":
			_, _ = io.WriteString(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`)
		default:
			_, _ = io.WriteString(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [{"name": "secrets", "kind": "Secret"}]}`)
		}
	}))
	defer server.Close()
	cache := t.TempDir()
	flags := genericclioptions.NewConfigFlags(true)
	flags.APIServer, flags.CacheDir = &server.URL, &cache
	if err := KeepDiscovery(flags); err != nil {
		t.Fatal(err)
	}
	client, err := flags.ToDiscoveryClient()
	if err != nil {
		t.Fatal(err)
	}
	read := func() bool {
		t.Helper()
		_, lists, err := client.ServerGroupsAndResources()
		return err == nil && len(lists) == 1 && lists[0].APIResources[0].Name == "secrets"
	}
	if !read() {
		t.Fatal("there is no discovery")
	}
	files, err := filepath.Glob(filepath.Join(cache, "discovery", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the cache has %q, %v", files, err)
	}
	if err := os.RemoveAll(files[0]); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if !read() {
		t.Error("the files are read again")
	}
	if client.Invalidate(); read() {
		t.Error("what was invalidated is used")
	}
}
