package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/planes"
)

// TestAtPlane: the address in the kubeconfig is that of the control plane, and names that
// would lead elsewhere are refused.
func TestAtPlane(t *testing.T) {
	const text = "apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster: {server: https://127.0.0.1:6443}\n"
	got, err := atPlane([]byte(text), "acme")
	if err != nil || !strings.Contains(string(got), "server: https://127.0.0.1:6443/clusters/acme\n") {
		t.Errorf("%v:\n%s", err, got)
	}
	if got, err := atPlane([]byte(text), ""); err != nil || string(got) != text {
		t.Errorf("without a name: %v:\n%s", err, got)
	}
	for _, name := range []string{"../other", "A", "a/b", "a b"} {
		if _, err := atPlane([]byte(text), name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// TestPlaneJournal: the journal of a control plane is below planes.journal, and never the server's.
func TestPlaneJournal(t *testing.T) {
	own := &planes.Journal{}
	for _, c := range []struct {
		below, journal string
		spec           *planes.Journal
		want           string // the destination, or a part of the error
	}{
		{"/journals", "acme-1", own, "/journals/acme-1"},
		{"s3://bucket/journals/", "acme-1", own, "s3://bucket/journals/acme-1"},
		{"/journals", "", nil, "spec.journal is not set"},
		{"/journals", "", own, "no journal yet"},
		{"/journals", "../server", own, "no journal yet"},
		{"/journals", "..", own, "no journal yet"},
		{"", "acme-1", own, "planes.journal"},
	} {
		cfg := config.Default()
		cfg.Journal.Destination, cfg.Planes.Journal = "/server", c.below
		got, err := withPlaneJournal(cfg, "acme",
			&planeObject{planes.Spec{Journal: c.spec}, planes.Status{Journal: c.journal}})
		text := fmt.Sprint(err)
		if err == nil {
			text = got.Journal.Destination
		}
		if !strings.Contains(text, c.want) || (err == nil) != (got != nil) || cfg.Journal.Destination != "/server" {
			t.Errorf("%+v: %s", c, text)
		}
	}
}

// TestKubeconfigOfAPlane: --plane is not added to the kubeconfig of a control plane, and that does
// not lead to the journal of the server.
func TestKubeconfigOfAPlane(t *testing.T) {
	file := filepath.Join(t.TempDir(), "acme")
	const text = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], " +
		"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1/clusters/acme'}}]}"
	put(t, file, text)
	for _, args := range [][]string{{"status"}, {"doctor"}, {"console"}, {"kubeconfig", "create", "jane"}} {
		_, errs, code := runCLI(t, append(args, "--kubeconfig", file, "--plane", "beta")...)
		if code != ExitUsage || !strings.Contains(errs, "that of the control plane acme already: leave out --plane") {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
	const url = "https://127.0.0.1:1/clusters/acme/"
	if err := (&objectFlags{}).refuseServerJournal(url); err == nil || !strings.Contains(err.Error(), "--plane acme") {
		t.Errorf("the journal of the server is used: %v", err)
	}
	if err := (&objectFlags{from: fromFlags{from: "/mnt"}}).refuseServerJournal(url); err != nil {
		t.Error(err)
	}
	if err := (&objectFlags{}).refuseServerJournal("https://127.0.0.1:1"); err != nil {
		t.Error(err)
	}
}

// TestKubeconfigOfTheHost: whoever writes the kubeconfig for a control plane learns that it is that of
// the administrator of the whole server.
func TestKubeconfigOfTheHost(t *testing.T) {
	server, _ := issuer(t)
	dir := t.TempDir()
	administrator(t, filepath.Join(dir, "admin.kubeconfig"), server, server.URL, "")
	for plane, note := range map[string]string{"": "", "acme": "kubeconfig create NAME --plane acme\n"} {
		args := []string{"kubeconfig", "--data-dir", dir, "-o", filepath.Join(dir, plane+".written")}
		if plane != "" {
			args = append(args, "--plane", plane)
		}
		out, errs, code := runCLI(t, args...)
		if code != ExitOK || out != "" || (errs != "") != (note != "") || !strings.HasSuffix(errs, note) {
			t.Errorf("%v: exit code %d:\n%s%s", args, code, out, errs)
		}
	}
}
