package faults

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestUndecodableObject: a start that one damaged object stops names its key and what to
// do, and that helps.
func TestUndecodableObject(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	if err := put(t, s, "precious"); err != nil {
		t.Fatal(err)
	}
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	harness.StartIn(t, s.Dir).Kill() // without the sum that a stop writes
	corrupt(t, filepath.Join(s.Dir, "etcd", "member", "snap", "db"), "/registry/configmaps/default/precious")

	broken := harness.Launch(t, s.Dir)
	const key = `the damaged object with the key \"/registry/configmaps/default/precious\" in etcd`
	broken.WaitLog(key)
	broken.WaitLog("backup restore --data-dir ")
	harness.Contains(t, harness.Runs(t, harness.ExitNotReady, "status", "--data-dir", s.Dir), strings.ReplaceAll(key, `\`, ""))
	broken.Kill()

	config := harness.ConfigFile(t, "apiServer: {featureGates: {AllowUnsafeMalformedObjectDeletion: true}}\n")
	mending := harness.Launch(t, s.Dir, "--config", config)
	mending.WaitLog(key)
	mending.Kubectl("", "delete", "--raw", "/api/v1/namespaces/default/configmaps/precious?ignoreStoreReadErrorWithClusterBreakingPotential=true")
	mending.WaitReady()
	if _, err := mending.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "precious", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object after its deletion: %v", err)
	}
}

// corrupt inverts a byte in each version of the object, so that it cannot be decoded.
func corrupt(t *testing.T, file, key string) {
	t.Helper()
	data := harness.ReadFile(t, file)
	const magic = "k8s\x00"
	for at := 0; ; {
		next := bytes.Index(data[at:], []byte(key))
		if next < 0 {
			return
		}
		at += next + len(key)
		if value := bytes.Index(data[at:min(len(data), at+32)], []byte(magic)); value >= 0 {
			flip(t, file, int64(at+value+len(magic)+1)) // the length of the first field
		}
	}
}
