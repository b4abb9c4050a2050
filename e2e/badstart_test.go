package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// failsToStart runs the server, whose last line must be an error that has all
// the parts.
func failsToStart(t *testing.T, dir string, args []string, parts ...string) {
	t.Helper()
	out := harness.Runs(t, harness.ExitFailure, append([]string{"server", "--data-dir", dir, "--port", "0"}, args...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "error: ") {
		t.Errorf("the last line is no error:\n%s", out)
	}
	harness.Contains(t, last, parts...)
}

func TestSecondServerOnTheSameDirectory(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	failsToStart(t, s.Dir, nil, s.Dir, fmt.Sprintf("process id %d", s.PID()), "stop it first, or choose another directory with --data-dir")
	s.Kubectl("", "get", "namespaces")
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // it has no connections
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	failsToStart(t, dir, []string{"--port", port}, "127.0.0.1:"+port+" is taken", "--port")
	if _, err := os.Stat(filepath.Join(dir, "etcd")); !os.IsNotExist(err) {
		t.Errorf("etcd was started: %v", err)
	}
}

func TestUnusableDataDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	harness.WriteFile(t, file, "")
	const remedy = "choose another with --data-dir"
	failsToStart(t, file, nil, file, "is a file", remedy)
	failsToStart(t, filepath.Join(file, "data"), nil, file, "not a directory", remedy)
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 { // the administrator may write everywhere
		failsToStart(t, closed, nil, closed, "permission denied", remedy)
		failsToStart(t, filepath.Join(closed, "data"), nil, closed, "permission denied", remedy)
	}
}

func TestDataDirectoryOfANewerVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stamp := filepath.Join(dir, "version.json")
	content := `{"format": 99, "version": "v9.9.9", "kubernetes": "v1.99.0", "etcd": "9.9.9"}`
	harness.WriteFile(t, stamp, content)
	failsToStart(t, dir, nil, dir, "v9.9.9", "format 99", "run the newer release")
	if after, err := os.ReadFile(stamp); err != nil || string(after) != content {
		t.Errorf("the stamp was changed: %q %v", after, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != "lock" && entry.Name() != "version.json" {
			t.Errorf("%s was written into the newer version's directory", entry.Name())
		}
	}
	harness.WriteFile(t, stamp, "{")
	failsToStart(t, dir, nil, stamp, "not readable", "remove it, and start the release that was used last")
}

// TestCorruptFilesInTheDataDirectory: unreadable files are neither replaced nor
// ignored, and the directory works again once they are repaired.
func TestCorruptFilesInTheDataDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	s.Kubectl("", "create", "configmap", "precious")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	for path, want := range map[string][]string{
		"pki/server-ca.crt":       {"is not a PEM certificate", "replace it, or take it from a backup"},
		"pki/apiserver.key":       {"is not a PEM private key", "replace it, or take it from a backup"},
		"pki/service-account.key": {"is not a PEM private key"},
		"encryption/config.yaml":  {"is not an EncryptionConfiguration", "restore it from a backup"},
		"etcd/member/snap/db":     {"is damaged", "backup restore --data-dir "},
	} {
		file := filepath.Join(dir, filepath.FromSlash(path))
		good := harness.ReadFile(t, file)
		garbage := bytes.Repeat([]byte("garbage "), 1000)
		harness.WriteFile(t, file, string(garbage))
		failsToStart(t, dir, nil, append(want, filepath.Join(dir, strings.Split(path, "/")[0]))...)
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, garbage) {
			t.Errorf("%s was changed: %v", path, err)
		}
		harness.WriteFile(t, file, string(good))
	}
	s = harness.StartIn(t, dir)
	s.Kubectl("", "get", "configmap", "precious")
}

// TestAuthorityWithAnotherKey: a start is refused if key and certificate do
// not match.
func TestAuthorityWithAnotherKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	placeAuthority(t, dir, "server-ca")
	placeAuthority(t, dir, "client-ca")
	ca, other := filepath.Join(dir, "pki", "server-ca"), filepath.Join(dir, "pki", "client-ca")
	if err := os.Rename(other+".key", ca+".key"); err != nil {
		t.Fatal(err)
	}
	failsToStart(t, dir, nil, ca+".crt", "do not belong together", "place a matching pair")
	if err := os.Remove(ca + ".crt"); err != nil {
		t.Fatal(err)
	}
	failsToStart(t, dir, nil, ca+".key exists without", "place both files of the authority")
}
