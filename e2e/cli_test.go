package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func TestVersionCommand(t *testing.T) {
	t.Parallel()
	kubernetes := harness.KubernetesVersion(t)
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "version"), "kube-hyper-mini ", "Kubernetes "+kubernetes, "etcd 3.")
	var versions map[string]string
	if err := json.Unmarshal([]byte(harness.Runs(t, harness.ExitOK, "version", "-o", "json")), &versions); err != nil {
		t.Fatal(err)
	}
	if versions["kubernetes"] != kubernetes || versions["server"] == "" || versions["etcd"] == "" || versions["go"] == "" {
		t.Errorf("versions: %v", versions)
	}
}

// TestDefaultDataDirectory: where the data goes without a word about it.
func TestDefaultDataDirectory(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for env, want := range map[string]string{
		"XDG_DATA_HOME=" + home: filepath.Join(home, "kube-hyper-mini"),
		"XDG_DATA_HOME=":        filepath.Join(home, ".local", "share", "kube-hyper-mini"),
	} {
		if os.Geteuid() == 0 {
			want = "/var/lib/kube-hyper-mini"
		}
		out, code := harness.CLIWith(t, []string{"HOME=" + home, env}, "config", "print", "--effective")
		if code != harness.ExitOK {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		harness.Contains(t, out, "dataDir: "+want+"\n")
	}
}

func TestStatusCommand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	harness.Contains(t, harness.Runs(t, harness.ExitNotReady, "status", "--data-dir", dir), "start the server first")

	s := harness.Launch(t, dir)
	// With --wait, for scripts that have just started the server.
	harness.Contains(t, s.Status(), "ready", "since", "etcd", "certificate", "quota 8.0 GiB")
	var status struct {
		Ready        bool
		ReadySince   time.Time
		PID          int
		Server       string
		DataDir      string
		Controllers  []string
		Versions     map[string]string
		Database     struct{ SizeBytes, Revision int64 }
		Certificates map[string]time.Time
	}
	if err := json.Unmarshal([]byte(s.Status("-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if !status.Ready || status.ReadySince.IsZero() || status.PID != s.PID() || status.Server != s.RESTConfig().Host || status.DataDir != dir {
		t.Errorf("status: %+v", status)
	}
	if len(status.Controllers) < 12 || status.Database.SizeBytes == 0 || status.Database.Revision == 0 {
		t.Errorf("controllers %v, database %+v", status.Controllers, status.Database)
	}
	for _, name := range []string{"server-ca", "client-ca", "front-proxy-ca", "apiserver", "admin"} {
		if !status.Certificates[name].After(time.Now()) {
			t.Errorf("the certificate %s ends at %v", name, status.Certificates[name])
		}
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	harness.Contains(t, harness.Runs(t, harness.ExitNotReady, "status", "--data-dir", dir), "does not answer", "is it running?")
}

// TestStatusOfRemoteServers: status names what cannot be reached, and the warnings of
// the log.
func TestStatusOfRemoteServers(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	harness.Contains(t, s.Status(), "memory ", "objects ", "none is scheduled (backup.schedule)")
	s.Kubectl(deadTarget, "apply", "-f", "-")
	harness.Eventually(t, "the status names the target", func() error {
		if out := s.Status(); !strings.Contains(out, "FAILED: ServiceEndpoint default/dead: ") || !strings.Contains(out, "0 APIServices, 1 ServiceEndpoints, 1 of them fail") {
			return fmt.Errorf("it does not:\n%s", out)
		}
		return nil
	})
	harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", s.Dir)
	harness.Contains(t, s.Status(), ", sent to a client")
}
