package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// TestMergeDistinguishesServers: entries of another server are never replaced.
func TestMergeDistinguishesServers(t *testing.T) {
	const server = "https://127.0.0.1:6443"
	ours := rendered(t, server)
	loaded, err := clientcmd.Load(ours)
	if err != nil {
		t.Fatal(err)
	}
	authority := loaded.Clusters[Name].CertificateAuthorityData
	full := func(url string, ca []byte) *api.Config {
		cfg := api.NewConfig()
		cfg.Clusters["mini"] = &api.Cluster{Server: url, CertificateAuthorityData: ca}
		cfg.AuthInfos["mini"] = &api.AuthInfo{Token: "secret"}
		cfg.Contexts["mini"] = &api.Context{Cluster: "mini", AuthInfo: "mini", Namespace: "team"}
		cfg.CurrentContext = "mini"
		return cfg
	}
	only := func(change func(*api.Config)) *api.Config {
		cfg := full("https://other:6443", []byte("other"))
		change(cfg)
		return cfg
	}
	for name, c := range map[string]struct {
		file    *api.Config
		refused string
	}{
		"the same server":                 {full(server, authority), ""},
		"the same server, new address":    {full("https://mini.example.org:6443", authority), ""},
		"the same address, new authority": {full(server, []byte("former")), ""},
		"another server":                  {full("https://other:6443", []byte("other")), `a cluster "mini" of another server`},
		"a user only": {only(func(cfg *api.Config) {
			delete(cfg.Clusters, "mini")
			delete(cfg.Contexts, "mini")
		}), `a user "mini" of another server`},
		"a context only": {only(func(cfg *api.Config) {
			delete(cfg.Clusters, "mini")
			cfg.AuthInfos = map[string]*api.AuthInfo{}
			cfg.Contexts["mini"].Cluster = "elsewhere"
		}), `a context "mini" of another server`},
		"nothing of that name": {only(func(cfg *api.Config) {
			cfg.Clusters, cfg.AuthInfos, cfg.Contexts = map[string]*api.Cluster{}, map[string]*api.AuthInfo{}, map[string]*api.Context{}
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.file.Contexts["mini-2"] = &api.Context{Cluster: "taken"}
			content, err := clientcmd.Write(*c.file)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = Merge(t.Context(), ours, path, "mini", false, time.Now())
			if c.refused == "" {
				cfg, loadErr := clientcmd.LoadFromFile(path)
				if err != nil || loadErr != nil || cfg.Clusters["mini"].Server != server || cfg.AuthInfos["mini"].Token != "" {
					t.Errorf("not merged: %v, %v", err, loadErr)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "--context mini-3") {
				t.Errorf("the error is %v, want %q and a free name", err, c.refused)
			}
			after, err := os.ReadDir(filepath.Dir(path))
			if data, readErr := os.ReadFile(path); readErr != nil || err != nil || string(data) != string(content) || len(after) != 1 {
				t.Errorf("something was changed: %v, %v, %v\n%s", after, err, readErr, data)
			}
		})
	}
}

// TestMergeAgain: what is there already is not written again, and the namespace
// that the user has chosen stays.
func TestMergeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	data := rendered(t, "https://127.0.0.1:6443")
	if _, err := Merge(t.Context(), data, path, "mini", true, time.Now()); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Contexts["mini"].Namespace = "team"
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := Merge(t.Context(), data, path, "mini", true, time.Now())
	if err != nil || merged.Changed || merged.Backup != "" {
		t.Errorf("merged again: %+v, %v", merged, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	after, readErr := os.ReadFile(path)
	if err != nil || readErr != nil || len(entries) != 1 || string(after) != string(before) {
		t.Errorf("left behind %v, %v, %v\n%s", entries, err, readErr, after)
	}
}
