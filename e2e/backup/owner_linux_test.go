package backup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// service is the user of a server in these tests.
const service = 65534

// TestRootCommandsKeepTheOwner: commands that root runs on a service's data
// leave all files usable by the service.
func TestRootCommandsKeepTheOwner(t *testing.T) {
	t.Parallel()
	s := asService(t)
	create(t, s, "before")
	secret(t, s)
	root := func(args ...string) { harness.Runs(t, harness.ExitOK, append(args, "--data-dir", s.Dir)...) }
	root("backup", "save")
	s.Stop()
	root("backup", "save", filepath.Join(s.Dir, "backups", "stopped.tar.gz"))
	archives, err := filepath.Glob(filepath.Join(s.Dir, "backups", "manual-*"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("the archives are %v, %v", archives, err)
	}
	root("backup", "restore", archives[0])
	err = filepath.WalkDir(s.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != service {
			t.Errorf("%s is of user %d", path, uid)
		}
		if info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	reads(t, asServiceIn(t, s.Dir), "before")
}

// TestFilesOfAnotherUser: files without read permission are not reported as
// damage.
func TestFilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	s := asService(t)
	s.Stop()
	for _, name := range []string{"etcd/member/snap/db", "etcd/seal.json", "etcd/member/snap", "pki/client-ca.key", "version.json"} {
		path := filepath.Join(s.Dir, name)
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
		refused := harness.LaunchWith(t, serviceOptions(s.Dir))
		if code := refused.Wait(); code != harness.ExitFailure {
			t.Errorf("%s: exit code %d", name, code)
		}
		harness.Contains(t, refused.Log(), "permission denied", "chown -R USER "+s.Dir)
		for _, wrong := range []string{"damaged;", "is damaged", "move the data directory away"} {
			if strings.Contains(refused.Log(), wrong) {
				t.Errorf("%s: it says %q:\n%s", name, wrong, refused.Log())
			}
		}
		if err := os.Chown(path, service, service); err != nil {
			t.Fatal(err)
		}
	}
	asServiceIn(t, s.Dir)
}

func serviceOptions(dir string) harness.Options {
	id := strconv.Itoa(service)
	return harness.Options{Dir: dir, Wrap: []string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups"}}
}

// asService starts a server as another user on a directory of that user.
func asService(t *testing.T) *harness.Server {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a server as another user")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv (util-linux) is not installed")
	}
	dir, err := os.MkdirTemp("", "kube-hyper-mini-owner-") // where other users may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // after the server has ended
	data := filepath.Join(dir, "data")
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(data, 0o700), os.Chown(data, service, service)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return asServiceIn(t, data)
}

func asServiceIn(t *testing.T, dir string) *harness.Server {
	t.Helper()
	s := harness.LaunchWith(t, serviceOptions(dir))
	s.WaitReady()
	return s
}
