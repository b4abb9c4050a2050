package fleet

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestDowngradeOnAnExternalEtcd: a downgrade and a skipped minor release are refused
// because of the key in etcd, also with a new data directory. An upgrade makes a backup.
func TestDowngradeOnAnExternalEtcd(t *testing.T) {
	t.Parallel()
	members := cluster(t, 1)
	members[0].waitHealthy()
	urls := endpoints(members)
	first := server(t, urls, "")
	first.Stop()
	for release, want := range map[string]string{
		`{"format": 1, "version": "v9.9.9", "kubernetes": "v1.99.0", "etcd": "3.6.16"}`: "run the newer release",
		`{"format": 1, "version": "v0.0.1", "kubernetes": "v1.30.0", "etcd": "3.6.16"}`: "skips a minor release of Kubernetes",
	} {
		put(t, urls[0], "/kube-hyper-mini/release/registry", release)
		for _, dir := range []string{first.Dir, filepath.Join(t.TempDir(), "data")} { // one that was used and a new one
			out := harness.Runs(t, harness.ExitFailure, "server", "--port", "0", "--data-dir", dir, "--config", onEtcd(t, urls, ""))
			if dir == first.Dir {
				harness.Contains(t, out, want)
			}
		}
	}
	const older = `{"format": 1, "version": "v0.0.1", "kubernetes": "v1.36.0", "etcd": "3.6.1"}`
	put(t, urls[0], "/kube-hyper-mini/release/registry", older)
	stamp := filepath.Join(first.Dir, "version.json")
	harness.WriteFile(t, stamp, older)
	upgraded := harness.StartIn(t, first.Dir, "--config", onEtcd(t, urls, ""))
	harness.Contains(t, upgraded.Log(), "backup made before the upgrade", "from=v0.0.1")
	if content, err := os.ReadFile(stamp); err != nil || strings.Contains(string(content), "v0.0.1") {
		t.Errorf("the data is still that of the earlier release: %s, %v", content, err)
	}
}

// put writes a key through etcd's gRPC gateway.
func put(t *testing.T, url, key, value string) {
	t.Helper()
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	response, err := http.Post(url+"/v3/kv/put", "application/json", strings.NewReader(fmt.Sprintf(`{"key": %q, "value": %q}`, encode(key), encode(value))))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("put %s: %s", key, response.Status)
	}
}
