package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built has the binaries of this test process.
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
	return Build(t, Root(t), ".", "kube-hyper-mini", "-ldflags", "-w")
}

// KubectlBinary builds kubectl of the Kubernetes version in go.mod, stamped
// with it as a release is, and returns its path. KHM_KUBECTL names one that is
// built already.
func KubectlBinary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("KHM_KUBECTL"); path != "" {
		return path
	}
	version, flags := KubernetesVersion(t), "-w"
	for _, stamped := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += " -X " + stamped + ".gitVersion=" + version
	}
	return Build(t, filepath.Join(Root(t), "e2e"), "k8s.io/kubernetes/cmd/kubectl", "kubectl", "-ldflags", flags)
}

// KubernetesVersion is the version of Kubernetes that the tests are built
// against.
func KubernetesVersion(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = filepath.Join(Root(t), "e2e")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("find the version of k8s.io/kubernetes in %s: %v", cmd.Dir, err)
	}
	return strings.TrimSpace(string(out))
}

// root is looked for before a test changes the working directory. Empty: it was not found.
var root = findRoot()

// findRoot returns the directory above the working directory that has this package. The path of
// the source that the compiler records is none with -trimpath.
func findRoot() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "e2e", "harness", "build.go")); err == nil {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			break
		}
		dir = above
	}
	return ""
}

// Root is the directory of the repository.
func Root(t testing.TB) string {
	t.Helper()
	if root == "" {
		t.Fatal("the tests run outside of the repository")
	}
	return root
}

// Build builds a package, once in each test process, from the module in dir,
// and returns the path of the binary in .bin. Test processes that run at the
// same time share that directory: each builds in a directory of its own and
// puts the whole binary in place by a rename, so that no process runs an
// incomplete one. A binary that is up to date is not linked again.
func Build(t testing.TB, dir, pkg, name string, flags ...string) string {
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
	if err := build(dir, out, pkg, path, flags); err != nil {
		t.Fatal(err)
	}
	built.paths[name] = path
	return path
}

func build(dir, out, pkg, path string, flags []string) (err error) {
	temporary, err := os.MkdirTemp(out, filepath.Base(path)+".build-")
	if err != nil {
		return fmt.Errorf("make a directory to build in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	binary := filepath.Join(temporary, filepath.Base(path))
	// go build looks at what is in the place of its output, and links only
	// what differs; it replaces the file and does not write into it.
	if err := os.Link(path, binary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reuse %s: %w", path, err)
	}
	cmd := exec.Command("go", append(append([]string{"build", "-o", binary}, flags...), pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}
	if err := os.Rename(binary, path); err != nil {
		return fmt.Errorf("put %s in place: %w", path, err)
	}
	return nil
}
