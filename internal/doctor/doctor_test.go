package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"k8s.io/client-go/util/cert"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// found runs a check and returns its only finding, or nil.
func found(t *testing.T, check func(add func(Finding)) error) *Finding {
	t.Helper()
	var list []Finding
	if err := check(func(f Finding) { list = append(list, f) }); err != nil {
		t.Fatal(err)
	}
	switch len(list) {
	case 0:
		return nil
	case 1:
		if f := list[0]; f.Severity == "" || f.Object == "" || f.Problem == "" || f.Remedy == "" {
			t.Errorf("the finding is not complete: %+v", f)
		}
		return &list[0]
	}
	t.Fatalf("findings: %+v", list)
	return nil
}

func TestDisk(t *testing.T) {
	const total = 100 << 30
	for free, want := range map[int64]Severity{50 << 30: "", 150 << 20: Risk, 50 << 20: Failure} {
		d := &directory{Report: &Report{}, config: &Config{DataDir: "/data"}, space: func(string) (int64, int64, error) { return free, total, nil }}
		switch f := found(t, d.disk); {
		case f == nil && want != "":
			t.Errorf("%d bytes free: nothing was found", free)
		case f != nil && f.Severity != want:
			t.Errorf("%d bytes free: %+v", free, f)
		}
	}
}

func TestQuota(t *testing.T) {
	for bytes, want := range map[int64]Severity{79: "", 80: Risk, 99: Risk, 100: Failure} {
		f := found(t, func(add func(Finding)) error { checkQuota(add, "db", bytes, 100); return nil })
		if f == nil && want != "" || f != nil && f.Severity != want {
			t.Errorf("%d of 100: %+v, want %q", bytes, f, want)
		}
	}
	if f := found(t, func(add func(Finding)) error { checkQuota(add, "db", 100, 0); return nil }); f != nil {
		t.Errorf("without a quota: %+v", f)
	}
}

// TestQuotaOfAStoppedServer: the room that bbolt has taken in advance does not count.
func TestQuotaOfAStoppedServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), os.Truncate(file, 16<<20)); err != nil {
		t.Fatal(err)
	}
	for quota, want := range map[int64]bool{1 << 20: false, 1 << 10: true} {
		d := &directory{Report: &Report{}, config: &Config{Quota: quota}}
		if f := found(t, func(add func(Finding)) error { return d.quota(add, file) }); (f != nil) != want {
			t.Errorf("with a quota of %d: %+v", quota, f)
		}
	}
}

// TestState: problems in the status of the server become findings.
func TestState(t *testing.T) {
	for text, change := range map[string]func(*admin.Status){
		"":                     func(*admin.Status) {},
		"waits for etcd":       func(s *admin.Status) { s.Ready, s.Reason = false, "waits for etcd" },
		"the database is full": func(s *admin.Status) { s.Database.ReadOnly = "the database is full" },
		"alarm: NOSPACE":       func(s *admin.Status) { s.Database.Error = "alarm: NOSPACE" },
		"90 B of its quota":    func(s *admin.Status) { s.Database = admin.Database{NearQuota: true, SizeBytes: 90, QuotaBytes: 100} },
		"disk on fire":         func(s *admin.Status) { s.Backups.Error = "disk on fire" },
		"bucket is gone":       func(s *admin.Status) { s.Journal = &journal.Account{Destination: "s3://b", Error: "bucket is gone"} },
		"2 manifests":          func(s *admin.Status) { s.Manifests = &manifests.Summary{Failures: 2, Error: "a.yaml"} },
	} {
		status := &admin.Status{Ready: true, Server: "https://127.0.0.1:6443"}
		change(status)
		s := &server{Report: &Report{DataDir: "/a b"}, status: status}
		f := found(t, func(add func(Finding)) error { s.state(add); return nil })
		if (f == nil) != (text == "") || f != nil && !strings.Contains(f.Problem, text) {
			t.Errorf("%q: %+v", text, f)
		}
		if text == "disk on fire" && (f == nil || f.Commands[0] != "kube-hyper-mini backup save --data-dir '/a b'") {
			t.Errorf("the command for the backup: %+v", f)
		}
	}
}

// TestHeldDirectory: a process that holds the directory and does not answer is a finding, also with an
// external etcd; without one, the server is stopped.
func TestHeldDirectory(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, stamp := filepath.Join(dir, "admin.kubeconfig"), `{"format": 1, "version": "v1.0.0", "kubernetes": "v1.36.0", "etcd": "3.6.0"}`
	err := errors.Join(os.WriteFile(kubeconfig, nil, 0o600), os.WriteFile(filepath.Join(dir, "version.json"), []byte(stamp), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, held bool) {
		t.Helper()
		report, err := Directory(t.Context(), &Config{DataDir: dir, Kubeconfig: kubeconfig, External: config.ExternalEtcd{Endpoints: []string{"http://127.0.0.1:1"}},
			Certificates: func() ([]pki.Entry, error) { return nil, nil }}, false)
		if err != nil {
			t.Fatal(err)
		}
		if found := slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Check == "server" }); found != held || report.Stopped == held {
			t.Errorf("%s: %+v", what, report)
		}
	}
	release, err := datadir.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	check("a process holds it", true)
	if err := release(); err != nil {
		t.Fatal(err)
	}
	check("nobody holds it", false)
}

// TestEncryption: the key of a server that was used must exist and be readable, unless another file has it or
// nothing is encrypted.
func TestEncryption(t *testing.T) {
	dir := t.TempDir()
	d := &directory{Report: &Report{}, config: &Config{DataDir: dir, Encryption: config.Encryption{Resources: []string{"secrets"}}}}
	check := func(what string, want bool) {
		t.Helper()
		f := found(t, d.encryption)
		if (f != nil) != want || f != nil && (f.Severity != Failure || !strings.Contains(f.Remedy, "--data-dir "+dir)) {
			t.Errorf("%s: %+v", what, f)
		}
	}
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	check("a new directory", false)
	write("version.json", `{"format": 1, "version": "v1.0.0", "kubernetes": "v1.36.0", "etcd": "3.6.0"}`)
	check("without the key", true)
	d.config.Encryption.Resources = nil
	check("nothing is encrypted", false)
	d.config.Encryption = config.Encryption{Resources: []string{"secrets"}, ConfigFile: "/etc/keys.yaml"}
	check("another file", false)
	d.config.Encryption.ConfigFile = ""
	write("encryption/config.yaml", "x")
	check("a damaged key", true)
	write("encryption/config.yaml", "")
	check("an empty file", true)
	key := filepath.Join(dir, "encryption", "config.yaml")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := encryption.Ensure(key, d.config.Encryption.Resources); err != nil {
		t.Fatal(err)
	}
	check("with the key", false)
}

// TestNamedCertificates: the certificates that the configuration names are checked.
func TestNamedCertificates(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil) // for a year
	if err := errors.Join(err, os.WriteFile(certFile, certificate, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	for field, cfg := range map[string]Config{
		"serving.certFile":       {Serving: config.Serving{CertFile: certFile, KeyFile: keyFile}},
		"etcd.external.certFile": {External: config.ExternalEtcd{CertFile: certFile, KeyFile: keyFile}},
	} {
		cfg.DataDir, cfg.Certificates = dir, func() ([]pki.Entry, error) { return nil, nil }
		for days, want := range map[int]Severity{1: "", 350: Risk, 400: Failure} {
			d := &directory{Report: &Report{}, config: &cfg, now: func() time.Time { return time.Now().AddDate(0, 0, days) }}
			f := found(t, d.certificates)
			if f == nil && want != "" || f != nil && (f.Severity != want || f.Object != certFile || !strings.Contains(f.Remedy, field)) {
				t.Errorf("%s after %d days: %+v, want %q", field, days, f, want)
			}
		}
	}
}

// TestRemediesNameTheDirectory that was checked.
func TestRemediesNameTheDirectory(t *testing.T) {
	dir := t.TempDir()
	stamp := `{"format": 1, "version": "v1.0.0", "kubernetes": "v1.36.0", "etcd": "3.6.0"}`
	key := filepath.Join(dir, "pki", "server-ca.key")
	err := errors.Join(os.WriteFile(filepath.Join(dir, "version.json"), []byte(stamp), 0o600), os.Mkdir(filepath.Dir(key), 0o700),
		os.WriteFile(key, nil, 0o600), os.Chmod(key, 0o644), os.Chmod(dir, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	d := &directory{Report: &Report{}, config: &Config{DataDir: dir, Certificates: func() ([]pki.Entry, error) { return nil, nil }}}
	if f := found(t, d.modes); f == nil || !strings.Contains(f.Remedy, "certs rotate server --data-dir "+dir) {
		t.Errorf("the mode of a key: %+v", f)
	}
	if f := found(t, d.certificates); f == nil || !strings.Contains(f.Remedy, "server --new-identity --data-dir "+dir) {
		t.Errorf("missing authorities: %+v", f)
	}
}
