package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func create(t *testing.T, s *harness.Server, name string) *corev1.ConfigMap {
	t.Helper()
	created, err := s.Client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func secret(t *testing.T, s *harness.Server) {
	t.Helper()
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"key": "value"}}
	if _, err := s.Client().CoreV1().Secrets("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reads returns an error unless the server has the config map and can read the
// secret.
func reads(t *testing.T, s *harness.Server, name string) {
	t.Helper()
	if _, err := s.Client().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Errorf("what was saved is not there: %v", err)
	}
	got, err := s.Client().CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil || string(got.Data["key"]) != "value" {
		t.Errorf("the secret is %v, %v", got.Data, err)
	}
}

// TestRestore: a restored server has the state of the archive, and accepts all
// earlier credentials. Each restore has later resource versions, also one of the same
// archive.
func TestRestore(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(map[bool]string{true: "running", false: "stopped"}[running], func(t *testing.T) {
			t.Parallel()
			s := harness.Start(t)
			create(t, s, "before")
			secret(t, s)
			var token *authenticationv1.TokenRequest
			harness.Eventually(t, "the default service account gets a token", func() (err error) {
				token, err = s.Client().CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
				return err
			})
			archive := filepath.Join(t.TempDir(), "archive.tar.gz")
			if !running {
				s.Stop()
			}
			harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", s.Dir, archive), "saved", "objects at revision")
			harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "inspect", archive), "secrets, 1 encrypted", "pki/server-ca.key", "sha256:", "config/config.yaml")
			if !running {
				s = harness.StartIn(t, s.Dir)
			}
			after := create(t, s, "after")
			harness.Contains(t, harness.Runs(t, harness.ExitFailure, "backup", "restore", "--data-dir", s.Dir, archive), "in use")
			s.Stop()
			restored := harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, archive)
			_, old, _ := strings.Cut(strings.TrimSpace(restored), "the previous content is in ")

			again := harness.StartIn(t, s.Dir)
			reads(t, again, "before")
			if _, err := again.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "after", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("what came after the backup is there: %v", err)
			}
			config := again.RESTConfig()
			config.TLSClientConfig = rest.TLSClientConfig{CAData: config.CAData}
			config.BearerToken = token.Status.Token
			if _, err := kubernetes.NewForConfigOrDie(config).Discovery().ServerVersion(); err != nil {
				t.Errorf("a token from before is refused: %v", err)
			}
			watchIsRefused(t, again, after.ResourceVersion)
			between := create(t, again, "between")
			again.Stop()
			kept := harness.StartIn(t, old)
			if _, err := kept.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "after", metav1.GetOptions{}); err != nil {
				t.Errorf("the old data cannot be used: %v", err)
			}
			kept.Stop()
			harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, archive)
			watchIsRefused(t, harness.StartIn(t, s.Dir), between.ResourceVersion)
		})
	}
}

// watchIsRefused: a client with a resource version from before a restore must list again.
// A watch from it must get an error, and not wait for that version.
func watchIsRefused(t *testing.T, s *harness.Server, version string) {
	t.Helper()
	seconds := int64(60) // a watch that waits ends without an event
	watch, err := s.Client().CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: &seconds})
	if err == nil {
		event := <-watch.ResultChan()
		watch.Stop()
		err = apierrors.FromObject(event.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from before the restore returned %v", err)
	}
}

func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{harness.ExitFailure, []string{"save", "--data-dir", filepath.Join(empty, "missing")}, "nothing to save"},
		{harness.ExitFailure, []string{"restore", filepath.Join(empty, "missing.tar.gz")}, "no such file"},
		{harness.ExitUsage, []string{"save", "--encrypt-to", "bob", "--data-dir", empty}, "age recipient"},
		{harness.ExitUsage, []string{"restore"}, "FILE"},
		{harness.ExitUsage, []string{"save", "one", "two"}, "at most one FILE"},
		{harness.ExitOK, []string{"list", "--data-dir", empty}, "no backups in"},
	} {
		harness.Contains(t, harness.Runs(t, c.code, append([]string{"backup"}, c.args...)...), c.want)
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) > 0 {
		t.Errorf("a mistake left %v, %v", entries, err)
	}
}

// TestWithoutKeys: the keys that an archive leaves out can be added from
// elsewhere.
func TestWithoutKeys(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	create(t, s, "before")
	secret(t, s)
	archive := filepath.Join(t.TempDir(), "archive.tar.gz")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", s.Dir, "--no-keys", archive), "1 secrets are encrypted", "pki/", "encryption/")
	s.Stop()
	dir := filepath.Join(t.TempDir(), "elsewhere")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", dir, archive), "1 secrets are encrypted")
	for _, room := range []string{"pki", "encryption"} {
		if _, err := os.Stat(filepath.Join(dir, room)); err == nil {
			t.Errorf("%s was in the archive", room)
		}
	}
	// A server without its identity, or without its encryption key, names the
	// missing files.
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "server", "--data-dir", dir, "--port", "0"), "service-account.key", "--new-identity")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "server", "--data-dir", dir, "--port", "0", "--new-identity"), "secrets in etcd are encrypted with another key", filepath.Join(dir, "encryption", "config.yaml")+" is missing")
	if _, err := os.Stat(filepath.Join(dir, "encryption", "config.yaml")); err == nil {
		t.Error("a new key took the place of the missing one")
	}
	for _, room := range []string{"pki", "encryption"} {
		if err := os.RemoveAll(filepath.Join(dir, room)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(dir, room), os.DirFS(filepath.Join(s.Dir, room))); err != nil {
			t.Fatal(err)
		}
	}
	reads(t, harness.StartIn(t, dir), "before")
}

// TestSchedule: scheduled archives are made, old ones are removed, and the
// server reports both.
func TestSchedule(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "archives")
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("backup: {schedule: '@every 1s', keep: 2, dir: %q}\n", dir)))
	var first string
	harness.Eventually(t, "the first of the archives has gone", func() error {
		found, err := filepath.Glob(filepath.Join(dir, "scheduled-*.tar.gz"))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("%v, %w", found, err)
		}
		if len(found) > 3 { // the oldest may not have been removed yet
			t.Fatalf("more than two stay: %v", found)
		}
		if first == "" {
			first = found[0]
		}
		if first == found[0] {
			return errors.New("it is there")
		}
		return nil
	})
	var status struct {
		Backups struct{ Next, Last, File, Error string }
	}
	if err := json.Unmarshal([]byte(s.Status("-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if b := status.Backups; b.Next == "" || b.Last == "" || filepath.Dir(b.File) != dir || b.Error != "" {
		t.Errorf("the status says %+v", b)
	}
	harness.Contains(t, s.Status(), "next at ", "scheduled-")
	harness.Contains(t, s.Kubectl("", "get", "--raw", "/metrics"), `kube_hyper_mini_backup_last_timestamp_seconds{result="success"}`, "kube_hyper_mini_backup_size_bytes")
}

// TestFailingSchedule: the failure is reported, and the server continues.
func TestFailingSchedule(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	harness.WriteFile(t, file, "")
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("backup: {schedule: '@every 1s', dir: %q}\n", filepath.Join(file, "below"))))
	s.WaitLog("scheduled backup failed")
	harness.Contains(t, s.Status(), "FAILED", file)
	harness.Contains(t, s.Kubectl("", "get", "--raw", "/metrics"), `kube_hyper_mini_backup_last_timestamp_seconds{result="failure"}`)
	create(t, s, "still-working")
}

// TestUpgrade: data of an earlier release is backed up before it is changed,
// and restoring that archive undoes the upgrade.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	create(t, s, "before")
	secret(t, s)
	s.Stop()
	stamp := filepath.Join(s.Dir, "version.json")
	rewrite := func(version, kubernetes string) {
		harness.WriteFile(t, stamp, fmt.Sprintf(`{"format": 1, "version": %q, "kubernetes": %q, "etcd": "3.6.1"}`, version, kubernetes))
	}
	rewrite("v0.0.1", "v1.35.0")
	s = harness.StartIn(t, s.Dir)
	harness.Contains(t, s.Log(), "backup made before the upgrade", "from=v0.0.1")
	s.Stop()
	s = harness.StartIn(t, s.Dir)
	if strings.Contains(s.Log(), "before the upgrade") {
		t.Error("a second start of the same release is an upgrade")
	}
	s.Stop()
	archives, err := filepath.Glob(filepath.Join(s.Dir, "backups", "before-upgrade-*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives: %v, %v", archives, err)
	}
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "inspect", archives[0]), "v0.0.1")

	// The error of a release that cannot read the data has a remedy, and the remedy works.
	rewrite("v9.0.0", "v1.99.0")
	out, code := harness.CLI(t, "server", "--data-dir", s.Dir, "--port", "0")
	if code != harness.ExitFailure {
		t.Errorf("exit code %d", code)
	}
	harness.Contains(t, out, "v9.0.0", "backup restore", "before-upgrade")
	harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, archives[0])
	reads(t, harness.StartIn(t, s.Dir), "before")
}

// TestUpgradeThatIsNotReady: a release that has written data has taken it over, also if it
// does not become ready. Its next start makes no archive of what it has written.
func TestUpgradeThatIsNotReady(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	create(t, s, "before")
	secret(t, s)
	s.Stop()
	stamp := filepath.Join(s.Dir, "version.json")
	harness.WriteFile(t, stamp, `{"format": 1, "version": "v0.0.1", "kubernetes": "v1.36.0", "etcd": "3.6.1"}`)
	refused := filepath.Join(t.TempDir(), "refused.yaml")
	harness.WriteFile(t, refused, "{")
	file := harness.ConfigFile(t, fmt.Sprintf("manifests: {dir: %q, required: true}\n", filepath.Dir(refused)))
	for range 2 {
		s = harness.Launch(t, s.Dir, "--config", file)
		s.WaitLog("refused.yaml: not valid YAML") // the API was served
		s.Kill()
	}
	archives, err := filepath.Glob(filepath.Join(s.Dir, "backups", "before-upgrade-*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives: %v, %v", archives, err)
	}
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "inspect", archives[0]), "v0.0.1")
	if content, err := os.ReadFile(stamp); err != nil || strings.Contains(string(content), "v0.0.1") {
		t.Errorf("the data is still that of the earlier release: %s, %v", content, err)
	}
	harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, archives[0])
	reads(t, harness.StartIn(t, s.Dir), "before")
}

// TestUpgradeWithoutABackup: an upgrade whose backup fails is refused, unless
// backups before upgrades are switched off.
func TestUpgradeWithoutABackup(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Stop()
	harness.WriteFile(t, filepath.Join(s.Dir, "version.json"), `{"format": 1, "version": "v0.0.1", "kubernetes": "v1.36.0", "etcd": "3.6.1"}`)
	if err := os.WriteFile(filepath.Join(s.Dir, "backups"), nil, 0o600); err != nil { // in the way
		t.Fatal(err)
	}
	out, code := harness.CLI(t, "server", "--data-dir", s.Dir, "--port", "0")
	if code != harness.ExitFailure {
		t.Errorf("exit code %d", code)
	}
	harness.Contains(t, out, "make a backup before", "backup.beforeUpgrade")
	harness.StartIn(t, s.Dir, "--config", harness.ConfigFile(t, "backup: {beforeUpgrade: false}\n"))
}
