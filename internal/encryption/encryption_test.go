package encryption

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func ensure(t *testing.T, file string, resources ...string) *configuration {
	t.Helper()
	used, err := Ensure(file, resources)
	if err != nil || !used {
		t.Fatalf("Ensure: %v, %v", used, err)
	}
	c, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNothingToEncrypt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if used, err := Ensure(file, nil); used || err != nil {
		t.Errorf("got %v, %v", used, err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a file was written: %v", err)
	}
}

func TestLostKeyIsAnError(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"garbage": "garbage",
		"no key":  "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: []\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			put(t, file, content)
			if _, err := Ensure(file, []string{"secrets"}); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
				t.Errorf("it said: %v", err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != content {
				t.Errorf("the file was changed to %q, %v", got, err)
			}
		})
	}
}

// TestEditedFileIsKept: as it is, with every key and provider, or the start is
// refused.
func TestEditedFileIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	generated := filepath.Join(dir, "generated.yaml")
	key := ensure(t, generated, "secrets").secretboxKeys()[0]
	const one, two = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY="
	head := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
	for name, test := range map[string]struct{ content, refused string }{
		"rotated by hand":  {content: head + "- resources: [secrets]\n  providers:\n  - secretbox: {keys: [{name: new, secret: " + one + "}, {name: " + key.Name + ", secret: " + key.Secret + "}]}\n  - identity: {}\n"},
		"another provider": {content: head + "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: a, secret: " + two + "}]}\n  - secretbox: {keys: [{name: " + key.Name + ", secret: " + key.Secret + "}]}\n"},
		"a wildcard":       {content: head + "- resources: ['*.*']\n  providers:\n  - aescbc: {keys: [{name: a, secret: " + two + "}]}\n"},
		"own name":         {content: head + "- resources:\n  - secrets\n  providers:\n  - secretbox:\n      keys:\n      - name: local-00000000\n        secret: " + one + "\n  - identity: {}\n"},
		"a comment":        {content: head + "- resources: [secrets] # mine\n  providers:\n  - secretbox: {keys: [{name: " + key.Name + ", secret: " + key.Secret + "}]}\n"},
		"plain text":       {content: head + "- resources: [secrets]\n  providers:\n  - identity: {}\n  - secretbox: {keys: [{name: " + key.Name + ", secret: " + key.Secret + "}]}\n", refused: "does not encrypt secrets"},
		"other resources":  {content: head + "- resources: [configmaps]\n  providers:\n  - secretbox: {keys: [{name: " + key.Name + ", secret: " + key.Secret + "}]}\n", refused: "does not encrypt secrets"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			put(t, file, test.content)
			used, err := Ensure(file, []string{"secrets"})
			if !used || (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("Ensure: %v, %v", used, err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != test.content {
				t.Errorf("the file was changed to %q, %v", got, err)
			}
		})
	}
}

func TestEncrypted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if got, err := Encrypted(file); got != nil || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	ensure(t, file, "secrets", "configmaps")
	ensure(t, file, "secrets", "widgets.example.com")
	if got, err := Encrypted(file); err != nil || strings.Join(got, " ") != "secrets widgets.example.com" {
		t.Errorf("got %v, %v", got, err)
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
