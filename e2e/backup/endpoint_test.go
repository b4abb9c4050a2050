package backup

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// A key pair for these tests, which protects nothing.
const (
	recipient = "age1kuq80hqh5pqavr5whvq6rgktvrx7mhl7pwy7e454dqkg4smxse8qqg7xyd"
	identity  = "AGE-SECRET-KEY-1FLRVW466KYJ5RN9FHV4TTP8FUF28A9SP6HLJ3RUUT2S0WZQHAGLS8PP5CK"
)

// postAs requests an archive as the user and returns the answer, whose body the
// caller closes.
func postAs(t *testing.T, s *harness.Server, user, query string) *http.Response {
	t.Helper()
	config := s.RESTConfig()
	config.Impersonate.UserName = user
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Post(config.Host+"/kube-hyper-mini/backup"+query, "", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// allow lets the user request archives.
func allow(t *testing.T, s *harness.Server, user string) {
	t.Helper()
	s.Kubectl("", "create", "clusterrole", "saver", "--verb=post", "--non-resource-url=/kube-hyper-mini/backup")
	s.Kubectl("", "create", "clusterrolebinding", "saver", "--clusterrole=saver", "--user="+user)
	harness.Eventually(t, user+" may save", func() error {
		out, err := s.TryKubectl("", "auth", "can-i", "post", "/kube-hyper-mini/backup", "--as="+user)
		if err != nil {
			return fmt.Errorf("%s: %w", out, err)
		}
		return nil
	})
}

// fetch saves the answer to a POST in a file.
func fetch(t *testing.T, response *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", response.Status, err)
	}
	_ = response.Body.Close()
	path := filepath.Join(t.TempDir(), "archive")
	harness.WriteFile(t, path, string(data))
	return path
}

// TestSaveThroughTheAPI: a backup through the API is authorized and logged,
// and contains no keys.
func TestSaveThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	secret(t, s)
	response := postAs(t, s, "jane", "")
	_ = response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("jane gets %s", response.Status)
	}
	allow(t, s, "jane")
	out := harness.Runs(t, harness.ExitOK, "backup", "inspect", fetch(t, postAs(t, s, "jane", "?plain=false")))
	harness.Contains(t, out, "secrets, 1 encrypted", "pki/client-ca.key", "left out")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "file") && (strings.Contains(line, "pki/") || strings.Contains(line, "encryption/")) {
			t.Errorf("it gives away %s", line)
		}
	}
	s.WaitLog("backup sent")
	harness.Contains(t, s.Log(), "user=jane")

	whole := filepath.Join(t.TempDir(), "whole.tar.gz")
	harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", s.Dir, whole)
	if out := harness.Runs(t, harness.ExitOK, "backup", "inspect", whole); !strings.Contains(out, "pki/client-ca.key, ") || strings.Contains(out, "left out") {
		t.Errorf("the administrator's archive has\n%s", out)
	}
}

// TestConfiguredRecipients: every archive is encrypted to them, unless a plain one is requested
// by name, and restored with the key only.
func TestConfiguredRecipients(t *testing.T) {
	t.Parallel()
	file := harness.ConfigFile(t, "backup: {encryptTo: ["+recipient+"]}\n")
	s := harness.Start(t, "--config", file)
	secret(t, s)
	create(t, s, "before")
	key := filepath.Join(t.TempDir(), "identity")
	harness.WriteFile(t, key, identity+"\n")
	allow(t, s, "jane")
	inspect := func(archive string, more ...string) string {
		return harness.Runs(t, harness.ExitOK, append([]string{"backup", "inspect", archive}, more...)...)
	}
	streamed := fetch(t, postAs(t, s, "jane", ""))
	harness.Runs(t, harness.ExitFailure, "backup", "inspect", streamed)
	harness.Contains(t, inspect(streamed, "--identity", key), "pki/client-ca.key, ")
	harness.Contains(t, inspect(fetch(t, postAs(t, s, "jane", "?plain=true"))), "left out", "pki/client-ca.key")

	at := []string{"--data-dir", s.Dir} // where the server has recorded its configuration
	for _, running := range []bool{true, false} {
		if !running {
			s.Stop()
		}
		dir, save := t.TempDir(), append([]string{"backup", "save"}, at...)
		encrypted, plain := filepath.Join(dir, "encrypted"), filepath.Join(dir, "plain")
		harness.Runs(t, harness.ExitOK, append(save, encrypted)...)
		harness.Runs(t, harness.ExitFailure, "backup", "inspect", encrypted)
		harness.Contains(t, inspect(encrypted, "--identity", key), "pki/client-ca.key, ")
		harness.Runs(t, harness.ExitOK, append(save, "--plain", plain)...)
		harness.Contains(t, inspect(plain), "pki/client-ca.key, ")
	}
	harness.Runs(t, harness.ExitOK, append([]string{"backup", "save"}, at...)...)
	if archives, err := filepath.Glob(filepath.Join(s.Dir, "backups", "manual-*.tar.gz.age")); err != nil || len(archives) != 1 {
		t.Errorf("the archives are %v, %v", archives, err)
	}
	restored := filepath.Join(t.TempDir(), "data")
	restore := []string{"backup", "restore", "--data-dir", restored, streamed}
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, restore...), "--identity")
	if _, err := os.Stat(restored); !os.IsNotExist(err) {
		t.Errorf("a restore without the key has made a data directory: %v", err)
	}
	harness.Runs(t, harness.ExitOK, append(restore, "--identity", key)...)
	reads(t, harness.StartIn(t, restored), "before")
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, append([]string{"backup", "save", "--plain", "--encrypt-to", recipient}, at...)...), "--plain contradicts")
}

// TestEndpointIsDisabled: the API serves no archives when the endpoint is off.
func TestEndpointIsDisabled(t *testing.T) {
	t.Parallel()
	file := harness.ConfigFile(t, "backup: {endpoint: off}\n")
	s := harness.Start(t, "--config", file)
	out := harness.Runs(t, harness.ExitFailure, "backup", "save", "--data-dir", s.Dir, "--config", file)
	harness.Contains(t, out, "backup.endpoint", "stop the server")
	s.Stop()
	harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", s.Dir, "--config", file)
}

// TestStalledDownload: a client that does not read its archive does not stop the
// scheduled ones.
func TestStalledDownload(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, "backup: {schedule: \"@every 1s\", keep: 1000}\n"))
	// More than a client's buffers hold, and incompressible.
	noise := make([]byte, 700<<10)
	for i := range 16 {
		_, _ = rand.Read(noise) // never fails
		_, err := s.Client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("noise-%d", i)}, BinaryData: map[string][]byte{"noise": bytes.Clone(noise)},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	response := postAs(t, s, "", "")
	defer func() { _ = response.Body.Close() }() // never read
	archives := func() int {
		found, err := filepath.Glob(filepath.Join(s.Dir, "backups", "scheduled-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	before := archives()
	harness.Eventually(t, "backups are made while a client stalls", func() error {
		if made := archives() - before; made < 2 {
			return fmt.Errorf("%d", made)
		}
		return nil
	})
}
