package backup

import (
	"os"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// A key pair for this test, which protects nothing.
const (
	recipient = "age1kuq80hqh5pqavr5whvq6rgktvrx7mhl7pwy7e454dqkg4smxse8qqg7xyd"
	identity  = "AGE-SECRET-KEY-1FLRVW466KYJ5RN9FHV4TTP8FUF28A9SP6HLJ3RUUT2S0WZQHAGLS8PP5CK"
)

// TestEncryptedArchive: only the holder of the key can read an encrypted archive.
func TestEncryptedArchive(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	create(t, s, "before")
	secret(t, s)
	file := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := file("identity", identity)
	archive, dir := filepath.Join(t.TempDir(), "archive.tar.gz.age"), filepath.Join(t.TempDir(), "data")
	backup := func(code int, args ...string) string {
		return harness.Runs(t, code, append([]string{"backup"}, args...)...)
	}
	backup(harness.ExitOK, "save", "--encrypt-to", recipient, "--data-dir", s.Dir, archive)
	harness.Contains(t, backup(harness.ExitFailure, "inspect", archive), "--identity")
	backup(harness.ExitFailure, "restore", "--data-dir", dir, archive)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a restore without the key has made a data directory: %v", err)
	}
	harness.Contains(t, backup(harness.ExitOK, "inspect", "--identity", key, archive), "secrets, 1 encrypted")
	backup(harness.ExitOK, "restore", "--identity", key, "--data-dir", dir, archive)
	reads(t, harness.StartIn(t, dir), "before")
}
