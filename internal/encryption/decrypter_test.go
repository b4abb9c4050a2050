package encryption

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDecrypter: values of all keys that were added can be read, and errors name the
// key that is missing.
func TestDecrypter(t *testing.T) {
	t.Parallel()
	const key = "/registry/secrets/a/b"
	files := map[string][]byte{}
	values := map[string][]byte{}
	for _, name := range []string{"former", "present", "other"} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		ring, err := newKeyring(ensure(t, file, "secrets"))
		if err != nil {
			t.Fatal(err)
		}
		for prefix := range ring {
			if values[name], err = ring.encrypt(t.Context(), prefix, key, []byte(name)); err != nil {
				t.Fatal(err)
			}
		}
		if files[name], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	var d Decrypter
	for _, name := range []string{"former", "present"} {
		if err := d.Add(name, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"former", "present"} {
		if got, err := d.Decrypt(t.Context(), key, values[name]); err != nil || string(got) != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := d.Decrypt(t.Context(), key, []byte("plain")); err != nil || string(got) != "plain" {
		t.Errorf("plain text: %q, %v", got, err)
	}
	for _, c := range []struct {
		what, key string
		value     []byte
		want      string
	}{
		{"a key that was not added", key, values["other"], `secretbox key "local-`},
		{"a KMS plugin", key, []byte("k8s:enc:kms:v2:plugin:x"), "KMS"},
		{"a damaged value", key, append([]byte(nil), values["present"][:len(values["present"])-1]...), "decrypt with"},
	} {
		if got, err := d.Decrypt(t.Context(), c.key, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, want %q", c.what, got, err, c.want)
		}
	}
	if err := d.Add("config.yaml", []byte("x: y")); err == nil {
		t.Error("a file that is not an EncryptionConfiguration was added")
	}
}
