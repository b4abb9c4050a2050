package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

var keyNames = regexp.MustCompile(`local-[0-9a-f]{8}`)

// keysIn lists the names of the keys in a data directory's encryption file.
func keysIn(t *testing.T, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "encryption", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return keyNames.FindAllString(string(data), -1)
}

func secretIs(t *testing.T, s *harness.Server, want string) {
	t.Helper()
	if got := s.Kubectl("", "get", "secret", "s", "-o", "go-template={{.data.key | base64decode}}"); got != want {
		t.Errorf("the secret reads %q", got)
	}
}

// TestRotateEncryptionKey: the objects are rewritten with a new key and the old one is gone. A
// stopped server is named.
func TestRotateEncryptionKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	s.WaitLog("encrypted in etcd")
	s.Kubectl("", "create", "secret", "generic", "s", "--from-literal=key=value")
	first := keysIn(t, dir)
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "encryption", "rotate", "--data-dir", dir),
		"new key local-", "the new key encrypts", "old key removed", "rotated: 1 object rewritten")
	second := keysIn(t, dir)
	if len(first) != 1 || len(second) != 1 || first[0] == second[0] {
		t.Fatalf("the keys were %v and are %v", first, second)
	}
	secretIs(t, s, "value")
	s.Kubectl("", "patch", "secret", "s", "--type=merge", "-p", `{"stringData":{"key":"changed"}}`)
	if code := s.Stop(); code != harness.ExitOK {
		t.Fatalf("the server ended with exit code %d", code)
	}
	if lines := harness.Problems(s.Log()); lines != "" {
		t.Errorf("the server complains:\n%s", lines)
	}
	harness.Contains(t, harness.Runs(t, harness.ExitNotReady, "encryption", "rotate", "--data-dir", dir), "Start it with kube-hyper-mini server")
	secretIs(t, harness.StartIn(t, dir), "changed")
}

// TestRotationSurvivesKills: a server that is killed early or late in a rotation starts
// again, reads its secrets and ends the rotation.
func TestRotationSurvivesKills(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	s.Kubectl("", "create", "secret", "generic", "s", "--from-literal=key=value")
	for _, line := range []string{"new key", "old versions"} {
		before := keysIn(t, dir)
		killAfter(t, s, line)
		s = harness.StartIn(t, dir)
		secretIs(t, s, "value")
		harness.Eventually(t, "the rotation has ended", func() error {
			if keys := keysIn(t, dir); len(keys) != 1 {
				return fmt.Errorf("the keys are %v", keys)
			}
			return nil
		})
		secretIs(t, s, "value")
		if after := keysIn(t, dir); len(after) != 1 || after[0] == before[0] {
			t.Errorf("%s: the keys were %v and are %v", line, before, after)
		}
	}
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	secretIs(t, harness.StartIn(t, dir), "value")
}

// killAfter rotates, and kills the server when the command writes a line.
func killAfter(t *testing.T, s *harness.Server, line string) {
	t.Helper()
	rotate := exec.Command(harness.Binary(t), "encryption", "rotate", "--data-dir", s.Dir)
	out, err := rotate.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := rotate.Start(); err != nil {
		t.Fatal(err)
	}
	found := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !found && strings.Contains(lines.Text(), line) {
			found = true
			s.Kill()
		}
	}
	_ = rotate.Wait() // it fails unless the last lines had been sent
	if !found {
		t.Fatalf("the rotation did not come to %q", line)
	}
}

// TestChangedEncryptionKey: a key that was replaced under its name is named at
// once.
func TestChangedEncryptionKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	s.Kubectl("", "create", "secret", "generic", "s", "--from-literal=key=value")
	s.Stop()
	file := filepath.Join(dir, "encryption", "config.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile("secret: .*").ReplaceAllString(string(data), "secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	s = harness.Launch(t, dir)
	if code := s.Wait(); code != harness.ExitFailure {
		t.Errorf("the server ended with exit code %d", code)
	}
	harness.Contains(t, s.Log(), "secrets in etcd are encrypted with another key under the name", "put the former key back")
}
