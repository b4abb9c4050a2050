package upgrade

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// releases are earlier releases and the commits that the changelog names.
var releases = map[string]string{"v0.1.0": "03d0eca"}

// release builds an earlier release and returns its binary. The source stays in
// .bin, so that a second build takes everything from the build cache.
func release(t *testing.T, version string) string {
	t.Helper()
	commit, root := releases[version], harness.Root(t)
	if err := exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Skipf("the commit %s of %s is not in this clone", commit, version)
	}
	source := filepath.Join(root, ".bin", "release-"+version)
	if _, err := os.Stat(source); err != nil {
		unpack(t, root, commit, source)
	}
	return harness.Build(t, source, ".", "kube-hyper-mini-"+version, "-ldflags", "-X kube-hyper-mini.io/kube-hyper-mini/internal/version.release="+version)
}

// unpack puts the files of a commit into a new directory.
func unpack(t *testing.T, root, commit, to string) {
	t.Helper()
	temporary, err := os.MkdirTemp(filepath.Dir(to), "release-")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "release.tar")
	for _, args := range [][]string{{"git", "-C", root, "archive", "--output", archive, commit}, {"tar", "-x", "-f", archive, "-C", temporary}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if err := os.Rename(temporary, to); err != nil {
		if _, exists := os.Stat(to); exists != nil { // another test process was first
			t.Fatal(err)
		}
	}
}
