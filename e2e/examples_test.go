package e2e

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// examples is the directory of the examples for tests, in the repository.
const examples = "config/examples"

// example copies the examples, of which one is run in its directory, since package
// managers write there.
func example(t *testing.T, name string) (dir string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "examples")
	source := os.DirFS(filepath.Join(harness.Root(t), filepath.FromSlash(examples)))
	err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		target := filepath.Join(copied, filepath.FromSlash(path))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(copied, "testing", name)
}

// runExample runs a program in the directory of an example, with kube-hyper-mini in
// PATH, and fails the test if it fails or lacks the parts in its output.
func runExample(t *testing.T, dir string, env []string, program string, args []string, parts ...string) {
	t.Helper()
	// It compiles, or gets packages: on a loaded machine that takes minutes.
	ctx, cancel := context.WithTimeout(t.Context(), 10*harness.Patience)
	defer cancel()
	tmp := t.TempDir()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(harness.Binary(t))+string(filepath.ListSeparator)+os.Getenv("PATH"), "TMPDIR="+tmp)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	harness.Contains(t, string(out), parts...)
	left, err := filepath.Glob(filepath.Join(tmp, "kube-hyper-mini-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestExampleInGo: both packages, the standard library's way and Ginkgo with envtest.
func TestExampleInGo(t *testing.T) {
	t.Parallel()
	patience := harness.Patience.String()
	env := []string{"KUBEBUILDER_ASSETS=" + envtestAssets(t), "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=" + patience, "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=" + patience}
	runExample(t, example(t, "go"), env, "go", []string{"test", "-count=1", "-vet=off", "-v", "./..."},
		"--- PASS: TestWidgets/small", "--- PASS: TestWidgets/large", "Ran 3 of 3 Specs")
}

// TestExampleInPython runs where Python has pytest and kubernetes.
func TestExampleInPython(t *testing.T) {
	t.Parallel()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import pytest, kubernetes").Run() == nil {
			runExample(t, example(t, "python"), []string{"PYTHONDONTWRITEBYTECODE=1"}, python, []string{"-m", "pytest", "-v", "-p", "no:cacheprovider"}, "2 passed")
			return
		}
	}
	t.Skip("not run here: no python3 has pytest and kubernetes (Debian's packages python3-pytest and python3-kubernetes)")
}

// TestExampleInJavaScript runs where npm is. It gets the client from npm's registry.
func TestExampleInJavaScript(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("not run here: no npm, which comes with Node.js")
	}
	dir := example(t, "javascript")
	runExample(t, dir, nil, "npm", []string{"ci", "--ignore-scripts", "--no-audit", "--no-fund"})
	runExample(t, dir, nil, "npm", []string{"test"}, "pass 2")
}
