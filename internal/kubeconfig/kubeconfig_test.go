package kubeconfig

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func rendered(t *testing.T, server string) []byte {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data, err := Render(Access{Server: server, CAFile: file("ca"), CertFile: file("crt"), KeyFile: file("key")})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestServerOnItsMachine: the second URL survives a load, and an address that replaces
// the first leaves nothing of it.
func TestServerOnItsMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := Render(Access{Server: "https://mapped.example.org:32768", Local: "https://127.0.0.1:6443", CAFile: file, CertFile: file, KeyFile: file})
	if err != nil {
		t.Fatal(err)
	}
	local, err := ForThisMachine(data)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.Load(local)
	if err != nil || cfg.Clusters[Name].Server != "https://127.0.0.1:6443" {
		t.Errorf("on the machine: %v\n%s", err, local)
	}
	other, err := SetServer(data, "https://10.0.0.7:443", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err = clientcmd.Load(other); err != nil {
		t.Fatal(err)
	}
	if len(cfg.Clusters[Name].Extensions) != 0 || cfg.Clusters[Name].Server != "https://10.0.0.7:443" || cfg.Clusters[Name].TLSServerName != "localhost" || string(cfg.AuthInfos[Name].ClientKeyData) != "x" {
		t.Errorf("it is:\n%s", other)
	}
	if _, err := SetServer([]byte("{"), "https://10.0.0.7", ""); err == nil {
		t.Error("a broken kubeconfig is accepted")
	}
	if same, err := ForThisMachine(other); err != nil || !bytes.Equal(same, other) {
		t.Errorf("without a second URL: %v\n%s", err, same)
	}
}

func TestRenderNeedsItsFiles(t *testing.T) {
	if _, err := Render(Access{CAFile: "/does/not/exist"}); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("it said: %v", err)
	}
}

// TestRename: the entries have another name, and nothing else differs.
func TestRename(t *testing.T) {
	data := rendered(t, "https://127.0.0.1:6443")
	renamed, err := Rename(data, "mini")
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := clientcmd.Load(renamed); err != nil || cfg.CurrentContext != "mini" || cfg.Clusters["mini"] == nil || cfg.AuthInfos["mini"] == nil {
		t.Errorf("%s, %v", renamed, err)
	}
	if _, err := Rename([]byte("apiVersion: v1\nkind: Config\n"), "mini"); err == nil || !strings.Contains(err.Error(), "the next start of the server writes it") {
		t.Errorf("it said: %v", err)
	}
}
