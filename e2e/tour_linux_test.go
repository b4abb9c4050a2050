package e2e

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// packagedDir is the data directory of root.
const packagedDir = "/var/lib/kube-hyper-mini"

// ordinaryUser is not root and need not exist.
const ordinaryUser = 54321

// TestTourOfEachUser enters the README's tour as it stands, with the default port and data
// directory, as root and as an ordinary user. It has a network and a directory /var/lib of
// its own, so that servers and data of the machine do not matter.
func TestTourOfEachUser(t *testing.T) {
	if !harness.InNamespaces(t, unix.CLONE_NEWNET) {
		return
	}
	clones := map[string]string{}
	for _, user := range []string{"root", "ordinary"} {
		clones[user] = newClone(t)
	}
	harness.StartLoopback(t)
	harness.MountTmpfs(t, filepath.Dir(packagedDir), "mode=0755") // over that of a server of this machine
	t.Run("root", func(t *testing.T) {
		tour(t, clones["root"], packagedDir, nil)
		if entries, err := os.ReadDir(packagedDir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the reset it has %v, %v", entries, err)
		}
	})
	t.Run("ordinary", func(t *testing.T) {
		clone := clones["ordinary"]
		if !harness.CanBecomeOthers() {
			t.Skip("only root can become another user")
		}
		for _, path := range []string{clone, home(clone)} {
			if err := os.Chown(path, ordinaryUser, ordinaryUser); err != nil {
				t.Fatal(err)
			}
		}
		tour(t, clone, filepath.Join(home(clone), ".local/share/kube-hyper-mini"), &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser})
	})
}

// tour starts the server, enters the commands of the README, stops the server as Ctrl-C
// does, starts it again and resets it.
func tour(t *testing.T, clone, data string, user *syscall.Credential) {
	attributes := &syscall.SysProcAttr{Credential: user}
	env := []string{"HOME=" + home(clone), "XDG_DATA_HOME=", "KUBECONFIG=", "PATH=" + filepath.Join(clone, "bin") + ":" + os.Getenv("PATH")}
	server, client := harness.NewShell(t, clone, env, attributes), harness.NewShell(t, clone, env, attributes)
	start(t, server, clone, data)
	for _, command := range harness.Commands(t, "README.md", "## Sixty seconds") {
		client.Enter(command)
	}
	server.Enter(harness.Command{Line: "kill -INT %1; wait %1"})
	start(t, server, clone, data)
	client.Enter(harness.Command{Line: "kubectl get crd widgets.example.com"})
	server.Enter(harness.Command{Line: "kill -INT %1; wait %1"})
	server.Enter(harness.Command{Line: "echo yes | ./kube-hyper-mini reset"})
}

// start starts the server in the shell as its first job and enters the command of its
// last line.
func start(t *testing.T, shell *harness.Session, clone, data string) {
	t.Helper()
	// The job of the shell empties the file late: it would be that of the former server.
	shell.Enter(harness.Command{Line: "rm -f server.log"})
	shell.Enter(harness.Command{Line: "./kube-hyper-mini server >server.log 2>&1 &"})
	var try string
	harness.Eventually(t, "the server says how to use it", func() error {
		log, err := os.ReadFile(filepath.Join(clone, "server.log"))
		if err != nil {
			return err
		}
		_, after, found := strings.Cut(string(log), "try: ")
		line, _, ended := strings.Cut(after, "\n")
		if !found || !ended {
			return errors.New("it has logged:\n" + string(log))
		}
		try = line
		return nil
	})
	harness.Contains(t, try, filepath.Join(data, "admin.kubeconfig"))
	shell.Enter(harness.Command{Line: try})
}

// newClone makes a directory that looks like a clone after "make build", with a home
// directory and kubectl beside it. Each user can read it, wherever the clone of the tests
// is.
func newClone(t *testing.T) string {
	t.Helper()
	clone, err := os.MkdirTemp("", "tour-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(clone) }) // temporary
	examples := filepath.Join("config", "examples")
	err = errors.Join(
		os.Chmod(clone, 0o755), os.Mkdir(home(clone), 0o755), os.Mkdir(filepath.Join(clone, "bin"), 0o755),
		os.CopyFS(filepath.Join(clone, examples), os.DirFS(filepath.Join(harness.Root(t), examples))),
		copyProgram(harness.Binary(t), filepath.Join(clone, "kube-hyper-mini")),
		copyProgram(harness.KubectlBinary(t), filepath.Join(clone, "bin", "kubectl")),
	)
	if err != nil {
		t.Fatal(err)
	}
	return clone
}

// home is the home directory of the user of a clone.
func home(clone string) string { return filepath.Join(clone, "home") }

// copyProgram copies a program. It links instead where that is possible.
func copyProgram(from, to string) (err error) {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
