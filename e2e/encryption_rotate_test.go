package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

var keyNames = regexp.MustCompile(`local-[0-9a-f]{8}`)

// keysIn lists the names of the keys in a data directory's encryption file.
func keysIn(t *testing.T, dir string) []string {
	t.Helper()
	data := harness.ReadFile(t, filepath.Join(dir, "encryption", "config.yaml"))
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
		"rotated: 1 object rewritten with key local-")
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
	for _, rewritten := range []bool{false, true} {
		killDuringRotation(t, s, rewritten)
		begun := keysIn(t, dir) // the new key first
		s = harness.StartIn(t, dir)
		secretIs(t, s, "value")
		harness.Eventually(t, "the rotation has ended", func() error {
			if keys := keysIn(t, dir); len(keys) != 1 {
				return fmt.Errorf("the keys are %v", keys)
			}
			return nil
		})
		secretIs(t, s, "value")
		if after := keysIn(t, dir); len(after) != 1 || after[0] != begun[0] {
			t.Errorf("the keys were %v when the server was killed, and are %v", begun, after)
		}
	}
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	secretIs(t, harness.StartIn(t, dir), "value")
}

// killDuringRotation rotates, and kills the server when its file has the new key, or when it has
// rewritten the secret too. It tries again if the rotation has ended before the kill: the file
// has both keys afterwards.
func killDuringRotation(t *testing.T, s *harness.Server, rewritten bool) {
	t.Helper()
	version := func() string {
		secret, err := s.Client().CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return secret.ResourceVersion
	}
	for {
		before := version()
		ended := make(chan struct{})
		rotate := exec.Command(harness.Binary(t), "encryption", "rotate", "--data-dir", s.Dir)
		if err := rotate.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(ended)
			_ = rotate.Wait() // it fails when the server is killed
		}()
		harness.Eventually(t, "the rotation has begun", func() error {
			select {
			case <-ended:
				return nil // before it was noticed
			default:
			}
			if keys := keysIn(t, s.Dir); len(keys) != 2 {
				return fmt.Errorf("the keys are %v", keys)
			}
			if rewritten && version() == before {
				return errors.New("the secret is not rewritten")
			}
			return nil
		})
		s.Kill()
		<-ended
		if len(keysIn(t, s.Dir)) == 2 {
			return
		}
		s = harness.StartIn(t, s.Dir)
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
	data := harness.ReadFile(t, file)
	changed := regexp.MustCompile("secret: .*").ReplaceAllString(string(data), "secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	harness.WriteFile(t, file, changed)
	s = harness.Launch(t, dir)
	if code := s.Wait(); code != harness.ExitFailure {
		t.Errorf("the server ended with exit code %d", code)
	}
	harness.Contains(t, s.Log(), "secrets in etcd are encrypted with another key under the name", "put the former key back")
}
