package faults

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// withQuota is a configuration with the quota.
func withQuota(t *testing.T, quota string) string {
	t.Helper()
	return harness.ConfigFile(t, fmt.Sprintf("etcd: {embedded: {quotaBackend: %s}}\n", quota))
}

// put writes an object of almost a megabyte.
func put(t *testing.T, s *harness.Server, name string) error {
	t.Helper()
	_, err := s.Client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": strings.Repeat("v", 900<<10)},
	}, metav1.CreateOptions{})
	return err
}

// refused reports whether the error is the one for a full database.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
}

// get requests a path as the administrator.
func get(t *testing.T, s *harness.Server, path string) (int, string) {
	t.Helper()
	config := s.RESTConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(config.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // read to the end
	body := new(strings.Builder)
	if err := response.Write(body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body.String()
}

// fill writes until all writes are refused, and returns the names of the
// objects written. Concurrent writers exceed the quota further before etcd
// notices. A name is used once: while one writer is refused, another may be
// served, after room was made.
func fill(t *testing.T, s *harness.Server) []string {
	t.Helper()
	var tried atomic.Int64
	written := make([][]string, 16)
	harness.Eventually(t, "the database is full of objects", func() error {
		var writing sync.WaitGroup
		errs := make([]error, len(written))
		for i := range errs {
			writing.Go(func() {
				for {
					name := fmt.Sprintf("fill-%d", tried.Add(1))
					if errs[i] = put(t, s, name); errs[i] != nil {
						return
					}
					written[i] = append(written[i], name)
				}
			})
		}
		writing.Wait()
		for _, err := range errs {
			if timedOut(err) {
				return err
			}
			if !refused(err) {
				t.Fatal(err)
			}
		}
		if strings.Contains(s.Log(), "still full after compaction") {
			return nil
		}
		return errors.New("there is room")
	})
	return slices.Concat(written...)
}

// TestFullDatabase: the server warns, defragments, refuses writes if that does
// not make room, and accepts writes again after the steps that its message
// names.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	small := withQuota(t, "64Mi")
	s := harness.StartIn(t, dir, "--config", small)
	names := fill(t, s)
	readsOnly(t, s)
	if code := s.Stop(); code != 0 {
		t.Errorf("the full server ended with exit code %d", code)
	}

	larger := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(larger, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s = harness.StartIn(t, larger, "--config", withQuota(t, "256Mi"))
	if err := put(t, s, "more"); err != nil {
		t.Errorf("with a larger quota a write gets %v", err)
	}
	if strings.Contains(s.Log(), "ready for reads and deletions only") {
		t.Errorf("with a larger quota it says:\n%s", s.Log())
	}

	s = harness.StartIn(t, dir, "--config", small) // starts, and is still read-only
	if err := put(t, s, "one-more"); !refused(err) {
		t.Errorf("after a restart a write gets %v", err)
	}
	harness.Contains(t, s.Log(), "ready for reads and deletions only")
	for _, name := range names[:len(names)/2] {
		if err := s.Client().CoreV1().ConfigMaps("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete from a full database: %v", err)
		}
	}
	harness.Eventually(t, "deletions have made room", func() error { return put(t, s, "room") })
	s.WaitLog("writes are accepted again")
}

// readsOnly checks that writes are refused, that reads and health checks
// succeed, and that log, metrics and status report it.
func readsOnly(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Contains(t, s.Log(), " % of its quota", "the database is full (", "raise etcd.embedded.quotaBackend and restart")
	err := put(t, s, "one-more")
	if !refused(err) || !strings.Contains(err.Error(), "raise etcd.embedded.quotaBackend and restart") {
		t.Errorf("a write gets %v", err)
	}
	if _, err := s.Client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
		t.Errorf("a read gets %v", err)
	}
	healthy(t, s, "/livez")
	// The server stays ready for load balancers: deletions, which make room,
	// must get through.
	healthy(t, s, "/readyz?verbose")
	_, metrics := get(t, s, "/metrics")
	harness.Contains(t, metrics, "kube_hyper_mini_database_near_quota 1", "kube_hyper_mini_database_read_only 1", `kube_hyper_mini_database_defragmentations_total{cause="no-space",result="success"}`)
	harness.Contains(t, s.Status(), "ready", "read-only", "the database is full (", "warning", "% of its quota")
	harness.Contains(t, s.Status("-o", "json"), `"nearQuota": true`, `"readOnly": "the database is full (`)
}

// TestDefrag: the command returns free space, and keeps the objects.
func TestDefrag(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for i := range 20 {
		if err := put(t, s, fmt.Sprintf("fill-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	out, code := harness.CLI(t, "defrag", "--data-dir", s.Dir)
	if code != 0 || !regexp.MustCompile(`(?m)^defragmented the database from [\d.]+ MiB to [\d.]+ MiB in `).MatchString(out) {
		t.Errorf("it says, with exit code %d:\n%s", code, out)
	}
	_, metrics := get(t, s, "/metrics")
	if duration := regexp.MustCompile(`(?m)^kube_hyper_mini_database_defragmentation_seconds (\S+)`).FindStringSubmatch(metrics); len(duration) == 0 || duration[1] == "0" {
		t.Errorf("the metric of the duration is %v", duration)
	}
	if line := regexp.MustCompile(`database defragmented .* took=[\d.]+(ms|s) `); !line.MatchString(s.Log()) {
		t.Errorf("the log does not say how long it took:\n%s", s.Log())
	}
	if err := put(t, s, "after"); err != nil {
		t.Error(err)
	}
	// The API's authorization applies.
	powerless := s.RESTConfig()
	powerless.Impersonate.UserName = "powerless"
	client, err := rest.HTTPClientFor(powerless)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Post(powerless.Host+"/kube-hyper-mini/defragment", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // the code is enough
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("a user without rights gets %s", response.Status)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	again := harness.StartIn(t, s.Dir)
	if list, err := again.Client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{LabelSelector: "!none"}); err != nil || len(list.Items) != 22 {
		t.Errorf("there are %d objects, %v", len(list.Items), err)
	}
}
