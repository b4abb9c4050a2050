package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// finding is what `doctor -o json` says of one.
type finding struct {
	Severity, Check, Object, Problem, Remedy string
	Commands                                 []string
}

// examine runs doctor and returns its findings. Its exit code must agree with them.
func examine(t *testing.T, args ...string) []finding {
	t.Helper()
	out, code := doctorJSON(t, args...)
	report := struct {
		Checked  []string
		Findings []finding
	}{}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("exit code %d: %v\n%s", code, err, out)
	}
	if want := map[bool]int{false: harness.ExitOK, true: harness.ExitFindings}[len(report.Findings) > 0]; code != want {
		t.Fatalf("exit code %d, want %d:\n%s", code, want, out)
	}
	if len(report.Checked) == 0 {
		t.Errorf("nothing was checked:\n%s", out)
	}
	for _, f := range report.Findings {
		if f.Severity == "" || f.Check == "" || f.Object == "" || f.Problem == "" || f.Remedy == "" {
			t.Errorf("the finding is not complete: %+v", f)
		}
	}
	return report.Findings
}

// doctorJSON returns the standard output and the exit code.
func doctorJSON(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), append([]string{"doctor", "-o", "json"}, args...)...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// is reports whether a finding is of that check and tells of object.
func (f finding) is(check, object string) bool {
	return f.Check == check && strings.Contains(f.Object+" "+f.Problem, object)
}

// only returns the only finding, which must be of that check and tell of object.
func only(t *testing.T, findings []finding, check, object string) finding {
	t.Helper()
	if len(findings) != 1 || !findings[0].is(check, object) {
		t.Fatalf("want one finding of %q about %q, got %+v", check, object, findings)
	}
	return findings[0]
}

// remedy runs the commands of a finding, with kube-hyper-mini and kubectl in the path.
func (f finding) remedy(t *testing.T, kubeconfig string) {
	t.Helper()
	if len(f.Commands) == 0 {
		t.Fatalf("the finding has no commands: %+v", f)
	}
	programs := t.TempDir()
	for name, program := range map[string]string{"kube-hyper-mini": harness.Binary(t), "kubectl": harness.KubectlBinary(t)} {
		if err := os.Symlink(program, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig}
	for _, command := range f.Commands {
		if out, err := harness.RunWith(t, env, "", "sh", "-c", command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}

// damages are what may have happened to the data directory of a stopped server: the
// finding, and what else than its commands is the remedy.
var damages = []struct {
	name, check, object string
	damage              func(t *testing.T, dir string)
	remedy              func(t *testing.T, dir string)
}{
	{"key that others can read", "modes", "server-ca.key", chmod("pki/server-ca.key", 0o644), nil},
	{"directory that others can use", "modes", "pki", chmod("pki", 0o777), nil},
	{"authority that has expired", "certificates", "server-ca.crt", func(t *testing.T, dir string) {
		readAuthority(t, dir, "server-ca").renew(t, filepath.Join(dir, "pki", "server-ca.crt"), -time.Hour)
	}, nil},
	{"authority that will expire", "certificates", "front-proxy-ca.crt", func(t *testing.T, dir string) {
		readAuthority(t, dir, "front-proxy-ca").renew(t, filepath.Join(dir, "pki", "front-proxy-ca.crt"), time.Hour)
	}, nil},
	{"certificate that has expired", "certificates", "apiserver.crt", func(t *testing.T, dir string) {
		readAuthority(t, dir, "server-ca").signInto(t, dir, "apiserver", -2*time.Hour, -time.Hour)
	}, startsAgain},
	{"certificate of the future", "certificates", "apiserver.crt", func(t *testing.T, dir string) {
		readAuthority(t, dir, "server-ca").signInto(t, dir, "apiserver", time.Hour, 1000*time.Hour)
	}, startsAgain},
	{"authority that is missing", "certificates", "client-ca.crt", func(t *testing.T, dir string) {
		remove(t, filepath.Join(dir, "pki", "client-ca.crt"), filepath.Join(dir, "pki", "client-ca.key"))
	}, func(t *testing.T, dir string) { starts(t, dir, "--new-identity") }},
	{"certificate that cannot be read", "certificates", "pki", func(t *testing.T, dir string) {
		harness.WriteFile(t, filepath.Join(dir, "pki", "client-ca.crt"), "x")
	}, restores},
	{"encryption key that is missing", "encryption", "encryption/config.yaml", func(t *testing.T, dir string) {
		remove(t, filepath.Join(dir, "encryption", "config.yaml"))
	}, restores},
	{"database that is damaged", "database", "damaged", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "etcd", "member", "snap", "db")
		data := harness.ReadFile(t, path)
		i := strings.Index(string(data), "/registry/namespaces/default")
		if i < 0 {
			t.Fatal("the database has no namespace")
		}
		data[i+len("/registry/names")] ^= 1
		harness.WriteFile(t, path, string(data))
	}, restores},
	{"database that is missing", "database", "its database is missing", func(t *testing.T, dir string) {
		if err := os.Rename(filepath.Join(dir, "etcd", "member"), filepath.Join(dir, "elsewhere")); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, dir string) {
		if err := os.Rename(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "etcd", "member")); err != nil {
			t.Fatal(err)
		}
	}},
}

// TestDoctorOnStoppedServer: each damage is found, as the only one, and its remedy
// helps.
func TestDoctorOnStoppedServer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", s.Dir, filepath.Join(s.Dir, "backups", "saved.tar.gz"))
	s.Stop()
	if findings := examine(t, "--data-dir", s.Dir); len(findings) > 0 {
		t.Fatalf("a stopped server: %+v", findings)
	}
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data dir") // commands must be quoted
			if err := exec.Command("cp", "-a", s.Dir, dir).Run(); err != nil {
				t.Fatal(err)
			}
			c.damage(t, dir)
			f := only(t, examine(t, "--data-dir", dir), c.check, c.object)
			if c.remedy != nil {
				c.remedy(t, dir)
			} else {
				f.remedy(t, "")
			}
			if findings := examine(t, "--data-dir", dir); len(findings) > 0 {
				t.Errorf("after the remedy of %+v: %+v", f, findings)
			}
		})
	}
	t.Run("newer release", func(t *testing.T) {
		stamp := filepath.Join(s.Dir, "version.json")
		harness.WriteFile(t, stamp, `{"format": 1, "version": "v9.0.0", "kubernetes": "v1.99.0", "etcd": "3.6.0"}`)
		out := harness.Runs(t, harness.ExitFindings, "doctor", "--data-dir", s.Dir)
		harness.Contains(t, out, "FAILURE  release: "+s.Dir, "v9.0.0", "run the newer release", "not checked: database (a newer release has written it)")
	})
}

func chmod(name string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// startsAgain is the remedy that a start is.
func startsAgain(t *testing.T, dir string) { starts(t, dir) }

func starts(t *testing.T, dir string, args ...string) {
	t.Helper()
	if code := harness.StartIn(t, dir, args...).Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
}

// restores is the remedy `backup restore`.
func restores(t *testing.T, dir string) {
	harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", dir, filepath.Join(dir, "backups", "saved.tar.gz"))
}

// TestDoctorWithoutDataDirectory: a name with a typing error is no finding.
func TestDoctorWithoutDataDirectory(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		harness.Contains(t, harness.Runs(t, harness.ExitFailure, "doctor", "--data-dir", dir), "error: ", "--data-dir")
	}
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, "doctor", "--data-dir", harness.Binary(t)), "is a file", "--data-dir")
	harness.Runs(t, harness.ExitUsage, "doctor", "--kubeconfig", "/nonexistent")
	harness.Runs(t, harness.ExitUsage, "doctor", "--kubeconfig", "x", "--data-dir", "y")
	file := harness.ConfigFile(t, fmt.Sprintf("dataDir: %s\netcd: {external: {endpoints: ['http://127.0.0.1:1']}}\nserviceEndpoints: [{namespace: a, name: b, targets: ['https://127.0.0.1:1']}]\n", t.TempDir()))
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "doctor", "--config", file), "no lock file")
}
