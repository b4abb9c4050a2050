package encryption

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

func ensure(t *testing.T, file string, resources ...string) *apiserverv1.EncryptionConfiguration {
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

func TestTheKeyIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption", "config.yaml")
	first := ensure(t, file, "secrets")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	second := ensure(t, file, "secrets", "configmaps")
	before, after := first.Resources[0].Providers[0].Secretbox.Keys[0], second.Resources[0].Providers[0].Secretbox.Keys[0]
	if before != after {
		t.Error("the key changed")
	}
	if got := second.Resources[0].Resources; strings.Join(got, " ") != "secrets configmaps" {
		t.Errorf("encrypted are %v", got)
	}
}

func TestWhatWasEncryptedStaysReadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	ensure(t, file, "secrets", "configmaps")
	c := ensure(t, file, "secrets")
	if len(c.Resources) != 2 || strings.Join(c.Resources[1].Resources, " ") != "configmaps" {
		t.Fatalf("got %+v", c.Resources)
	}
	if p := c.Resources[1].Providers; p[0].Identity == nil || p[1].Secretbox == nil {
		t.Errorf("config maps are not written plainly and read encrypted: %+v", p)
	}
	// Even when nothing is to be encrypted any more.
	c = ensure(t, file)
	if len(c.Resources) != 1 || strings.Join(c.Resources[0].Resources, " ") != "secrets configmaps" {
		t.Errorf("got %+v", c.Resources)
	}
}

func TestNothingToEncrypt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if used, err := Ensure(file, nil); used || err != nil {
		t.Errorf("got %v, %v", used, err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a file was written: %v", err)
	}
}

func TestALostKeyIsAnError(t *testing.T) {
	for name, content := range map[string]string{
		"garbage": "garbage",
		"no key":  "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: []\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Ensure(file, []string{"secrets"}); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
				t.Errorf("it said: %v", err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != content {
				t.Errorf("the file was changed to %q, %v", got, err)
			}
		})
	}
}

func TestCanRead(t *testing.T) {
	one, another := filepath.Join(t.TempDir(), "config.yaml"), filepath.Join(t.TempDir(), "config.yaml")
	for _, file := range []string{one, another} {
		if _, err := Ensure(file, []string{"secrets"}); err != nil {
			t.Fatal(err)
		}
	}
	config, err := read(one)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyOf(one, config)
	if err != nil {
		t.Fatal(err)
	}
	encrypted := []byte("k8s:enc:secretbox:v1:" + key.Name + ":...")
	for name, test := range map[string]struct {
		file  string
		value []byte
		want  bool
	}{
		"plain text":  {one, []byte("k8s\x00..."), true},
		"own key":     {one, encrypted, true},
		"another key": {another, encrypted, false},
		"no key":      {filepath.Join(t.TempDir(), "missing"), encrypted, false},
	} {
		if can, err := CanRead(test.file, test.value); err != nil || can != test.want {
			t.Errorf("%s: %v, %v", name, can, err)
		}
	}
}
