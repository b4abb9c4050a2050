package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestRootGivesUpRoot: commands of root on the directory of a service read and write what the
// service's user may.
func TestRootGivesUpRoot(t *testing.T) {
	t.Parallel()
	const service = "65534"
	if os.Geteuid() != 0 {
		t.Skip("only root can give up root")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv (util-linux) is not installed")
	}
	dir, err := os.MkdirTemp("", "kube-hyper-mini-root-") // where other users may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data, secrets := filepath.Join(dir, "data"), filepath.Join(dir, "secrets")
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	shadow := filepath.Join(secrets, "shadow")
	must(os.Chmod(dir, 0o755), os.Mkdir(data, 0o700), os.Chown(data, 65534, 65534), os.Mkdir(secrets, 0o700), os.WriteFile(shadow, []byte("SECRET"), 0o600))
	s := harness.LaunchWith(t, harness.Options{Dir: data, Wrap: []string{"setpriv", "--reuid=" + service, "--regid=" + service, "--clear-groups"}})
	s.WaitReady()
	here := []string{"--data-dir", data}
	root := func(code int, args ...string) string { return harness.Runs(t, code, append(args, here...)...) }

	// Without an attack.
	harness.Contains(t, root(harness.ExitOK, "kubeconfig"), "client-key-data")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "kubectl", "--data-dir", data, "get", "ns"), "default")
	refused := root(harness.ExitFailure, "kubeconfig", "-o", filepath.Join(secrets, "admin.kubeconfig"))
	harness.Contains(t, refused, "permission denied", "user "+service, "redirect")

	// A kubeconfig that runs a program.
	kubeconfig := filepath.Join(data, "admin.kubeconfig")
	honest := string(harness.ReadFile(t, kubeconfig))
	ran := filepath.Join(dir, "ran")
	evil := honest[:strings.Index(honest, "users:")] + `users:
- name: kube-hyper-mini
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: [` + ran + `]}}
`
	must(os.WriteFile(kubeconfig, []byte(evil), 0o600))
	for _, args := range [][]string{{"status"}, {"doctor"}, {"kubeconfig", "create", "jane"}, {"defrag"}, {"backup", "save"}, {"certs", "rotate", "service-account"}} {
		out, code := harness.CLI(t, append(args, here...)...)
		if code == harness.ExitOK || !strings.Contains(out, "has exec") {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
	if out, code := harness.CLI(t, "kubectl", "--data-dir", data, "get", "ns"); code == harness.ExitOK || !strings.Contains(out, "has exec") {
		t.Errorf("kubectl: exit code %d, %s", code, out)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program ran")
	}
	must(os.WriteFile(kubeconfig, []byte(honest), 0o600))

	// A linked directory of backups, and a linked key.
	must(os.RemoveAll(filepath.Join(data, "backups")), os.Symlink(secrets, filepath.Join(data, "backups")))
	harness.Contains(t, root(harness.ExitFailure, "backup", "save"), "permission denied")
	must(os.Remove(filepath.Join(data, "backups")))
	s.Stop()
	must(os.Symlink(shadow, filepath.Join(data, "pki", "zz.key")))
	out, code := harness.CLI(t, "backup", "save", "-", "--data-dir", data)
	if code == harness.ExitOK {
		t.Errorf("the archive was made: %d bytes", len(out))
	}
	must(os.Remove(filepath.Join(data, "pki", "zz.key")))
	for _, args := range [][]string{{"backup", "save"}, {"reset", "--yes"}} {
		root(harness.ExitOK, args...)
	}
	if entries, err := os.ReadDir(secrets); err != nil || len(entries) != 1 {
		t.Errorf("the other directory has %v, %v", entries, err)
	}
}
