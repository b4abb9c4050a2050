package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// built remembers the binaries of this test process.
var built = struct {
	sync.Mutex
	paths map[string]string
}{paths: map[string]string{}}

// Binary builds the product and returns its path. KHM_BINARY names one that
// is built already.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("KHM_BINARY"); path != "" {
		return path
	}
	return Build(t, Root(t), ".", "kube-hyper-mini")
}

// KubectlBinary builds kubectl of the same Kubernetes version and returns its
// path.
func KubectlBinary(t testing.TB) string {
	t.Helper()
	return Build(t, filepath.Join(Root(t), "e2e"), "k8s.io/kubernetes/cmd/kubectl", "kubectl")
}

// Root is the directory of the repository.
func Root(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the harness does not know where its source is")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Build builds a package, once in each test process, from the module in dir.
// The binaries of a user's test processes share a directory below the user's
// cache, so that a second run links nothing anew; each build has a temporary
// name until it is whole.
func Build(t testing.TB, dir, pkg, name string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path, ok := built.paths[name]; ok {
		return path
	}
	out := filepath.Join(Root(t), ".bin")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatalf("make the directory for binaries: %v", err)
	}
	path := filepath.Join(out, name)
	temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
	cmd := exec.Command("go", "build", "-o", temporary, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, output)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatalf("put %s in place: %v", name, err)
	}
	built.paths[name] = path
	return path
}
