package kubeconfig

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
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

func TestRenderEmbedsCertificatesAndKey(t *testing.T) {
	data := rendered(t, "https://127.0.0.1:6443")
	if !bytes.Equal(data, rendered(t, "https://127.0.0.1:6443")) {
		t.Error("the same input gives other bytes")
	}
	cfg, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	cluster, user := cfg.Clusters[Name], cfg.AuthInfos[Name]
	if cfg.CurrentContext != Name || cluster.Server != "https://127.0.0.1:6443" || string(cluster.CertificateAuthorityData) != "ca" ||
		string(user.ClientCertificateData) != "crt" || string(user.ClientKeyData) != "key" {
		t.Errorf("it is:\n%s", data)
	}
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

func TestWriteKeepsAnEqualFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.kubeconfig")
	if err := Write(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(past) {
		t.Errorf("an equal file was written again: %v, %v", info.ModTime(), err)
	}
	if err := Write(path, []byte("a"), 0o640); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !datadir.HasMode(info, 0o640) {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

const theirs = `apiVersion: v1
kind: Config
current-context: work
clusters: [{name: work, cluster: {server: https://work.example.org}}]
contexts: [{name: work, context: {cluster: work, user: work, namespace: team}}]
users: [{name: work, user: {token: secret}}]
`

func TestMergeKeepsOtherEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(theirs), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil { // independent of the umask
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	merged, err := Merge(t.Context(), rendered(t, "https://127.0.0.1:6443"), path, "mini", false, now)
	if err != nil || !merged.Changed {
		t.Fatal(merged, err)
	}
	backup := merged.Backup
	if old, err := os.ReadFile(backup); err != nil || string(old) != theirs {
		t.Errorf("the backup %s holds %q, %v", backup, old, err)
	}
	cfg, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.CurrentContext != "work" || cfg.Contexts["work"].Namespace != "team" || cfg.AuthInfos["work"].Token != "secret" {
		t.Errorf("what was there changed: %+v", cfg)
	}
	if cfg.Contexts["mini"].Cluster != "mini" || cfg.Clusters["mini"].Server != "https://127.0.0.1:6443" {
		t.Errorf("the context is not there: %+v", cfg)
	}
	if info, err := os.Stat(path); err != nil || !datadir.HasMode(info, 0o640) {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if _, err := Merge(t.Context(), rendered(t, "https://127.0.0.1:7443"), path, "mini", true, now.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if cfg, err = clientcmd.LoadFromFile(path); err != nil || cfg.CurrentContext != "mini" || cfg.Clusters["mini"].Server != "https://127.0.0.1:7443" {
		t.Errorf("the second merge gave %+v, %v", cfg, err)
	}
}

func TestMergeCreatesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".kube", "config")
	merged, err := Merge(t.Context(), rendered(t, "https://127.0.0.1:6443"), path, "mini", false, time.Now())
	if err != nil || merged.Backup != "" || !merged.Changed {
		t.Fatalf("got %+v, %v", merged, err)
	}
	if cfg, err := clientcmd.LoadFromFile(path); err != nil || cfg.CurrentContext != "mini" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	if info, err := os.Stat(path); err != nil || !datadir.HasMode(info, 0o600) {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

func TestMergeFollowsASymbolicLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(t.Context(), rendered(t, "https://127.0.0.1:6443"), link, "mini", false, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); err != nil || got != target {
		t.Errorf("the link points to %q, %v", got, err)
	}
}

func TestMergeKeepsAnUnreadableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("{not a kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Merge(t.Context(), rendered(t, "https://127.0.0.1:6443"), path, "mini", false, time.Now())
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("it said: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "{not a kubeconfig" {
		t.Errorf("it holds %q, %v", data, err)
	}
}

// TestMergeRefusesAKubeconfigWithoutTheServer: the server's kubeconfig was damaged.
func TestMergeRefusesAKubeconfigWithoutTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	for _, data := range []string{"", "apiVersion: v1\nkind: Config\nclusters: [{name: kube-hyper-mini, cluster: {server: https://127.0.0.1:6443}}]\n"} {
		_, err := Merge(t.Context(), []byte(data), path, "mini", false, time.Now())
		if err == nil || !strings.Contains(err.Error(), "the next start of the server writes it") {
			t.Errorf("%q: it said: %v", data, err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a file was written: %v", err)
	}
}
