package faults

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestBadInputOfTestServers: each bad input of run and envtest has its exit code and
// message, and processes, files and listening ports are those from before. It runs in a
// network namespace, which has no other ports.
func TestBadInputOfTestServers(t *testing.T) {
	if !hasOwnNetwork(t) {
		return
	}
	full := newDisk(t, 16).path
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "letter.txt"), []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		tmp  string
		code int
		says string
	}{
		"an unknown COMMAND":                {[]string{"run", "--", "no-such-command"}, "", 127, `COMMAND "no-such-command" cannot be run`},
		"a DIR that is not empty":           {[]string{"envtest", used}, "", harness.ExitFailure, used + " is not empty, it has letter.txt"},
		"a full temporary directory":        {[]string{"run", "--", "echo", "never"}, full, harness.ExitFailure, "not enough room on the disk: the temporary directory " + full},
		"a COMMAND that ignores SIGTERM":    {[]string{"run", "--grace", "300ms", "--", "sh", "-c", `trap "" TERM; sleep 1000 & kill -TERM $PPID; while :; do sleep 0.01; done`}, "", 128 + 9, "COMMAND did not end within 300ms of the signal, and was killed"},
		"a COMMAND that is not executable":  {[]string{"run", "--", filepath.Join(used, "letter.txt")}, "", 126, "cannot be run"},
		"a configuration of another format": {[]string{"run", "--config", filepath.Join(used, "letter.txt"), "--", "echo", "never"}, "", harness.ExitUsage, "letter.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			home, tmp, mark := t.TempDir(), test.tmp, "FAULT_MARK="+t.Name()
			if tmp == "" {
				tmp = t.TempDir()
			}
			left := func() map[string][]string {
				return map[string][]string{"processes": marked(t, mark), "files": files(t, home, tmp, used), "ports": listeningPorts(t)}
			}
			before := left()
			cmd := exec.Command(harness.Binary(t), test.args...)
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+home, "XDG_CACHE_HOME=", mark)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != test.code || strings.Contains(string(out), "never\n") || !strings.Contains(string(out), test.says) {
				t.Errorf("it ended with %d, want %d and %q:\n%s", code, test.code, test.says, out)
			}
			if difference := cmp.Diff(before, left()); difference != "" {
				t.Errorf("left (+):\n%s", difference)
			}
		})
	}
}

// hasOwnNetwork reports whether the test runs in a network namespace of its own, see
// [harness.InNamespaces], which has the loopback interface and one listening port only.
func hasOwnNetwork(t *testing.T) bool {
	t.Helper()
	if !harness.InNamespaces(t, unix.CLONE_NEWNET) {
		return false
	}
	harness.StartLoopback(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // the test is over
	if ports := listeningPorts(t); len(ports) != 1 {
		t.Fatalf("the listening ports are %q, want one", ports)
	}
	return true
}

// files lists what is in the directories.
func files(t *testing.T, dirs ...string) (list []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			list = append(list, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// listeningPorts lists the addresses, in hexadecimal, at which processes of the network
// namespace accept TCP connections.
func listeningPorts(t *testing.T) (list []string) {
	t.Helper()
	const listening = "0A"
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile(filepath.Join("/proc/self/net", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			if fields := strings.Fields(line); len(fields) > 3 && fields[3] == listening {
				list = append(list, fields[1])
			}
		}
	}
	slices.Sort(list)
	return list
}
