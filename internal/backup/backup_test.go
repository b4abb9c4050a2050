package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

var stamp = datadir.Stamp{Format: 1, Version: "v1.0.0", Kubernetes: "v1.36.3", Etcd: "3.6.16"}

// write is a change of a key.
type write struct {
	key, value string
	deleted    bool
}

// writes are those of [database].
var writes = []write{
	{"/registry/configmaps/default/a", "1", false},
	{"/registry/configmaps/default/a", "2", false},
	{"/registry/configmaps/default/b", "1", false},
	{"/registry/secrets/default/s", "k8s:enc:secretbox:v1:...", false},
	{"/registry/example.com/widgets/default/w", "{}", false},
	{"/registry/configmaps/default/b", "", true},
	{"/elsewhere", "", false},
}

// database makes what etcd streams after the writes: a database with its sum at the end.
func database(t testing.TB, writes []write) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucket(schema.Key.Name())
		if err != nil {
			return err
		}
		for i, w := range writes {
			revision := int64(i + 2)
			record := etcd.AppendRecord(nil, &mvccpb.KeyValue{Key: []byte(w.key), Value: []byte(w.value), ModRevision: revision}, w.deleted)
			if err := bucket.Put(etcd.RevisionKey(revision, 0, w.deleted), record); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// server is a data directory with an identity and a store.
func server(t testing.TB) Source {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"pki/ca.crt": "certificate", "pki/ca.key": "key", "encryption/config.yaml": "keys"} {
		if err := datadir.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	put(t, policy, "policy")
	credentials := filepath.Join(t.TempDir(), "credentials")
	put(t, credentials, "keys")
	data := database(t, writes)
	return Source{
		DataDir: dir, Stamp: stamp, Prefix: "/registry", Config: []byte("kind: ServerConfiguration\n"),
		ConfigFiles: []config.Field{{Path: "apiServer.audit.policyFile", Value: policy}, {Path: "journal.credentialsFile", Value: credentials, Secret: true}},
		Snapshot:    func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
	}
}

func produce(source Source, options Options) Produce {
	return func(ctx context.Context, w io.Writer) error {
		_, err := Write(ctx, w, source, options)
		return err
	}
}

func backup(t testing.TB, options Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(t.Context(), &b, server(t), options); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestManifest(t *testing.T) {
	m, err := Read(bytes.NewReader(backup(t, Options{Reason: ReasonManual})), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Snapshot.Revision != 8 || m.Stamp != stamp || m.Reason != ReasonManual {
		t.Errorf("the manifest is %+v", m)
	}
	want := map[string]Count{"configmaps": {Objects: 1}, "secrets": {Objects: 1, Encrypted: 1}, "widgets.example.com": {Objects: 1}, "(others)": {Objects: 1}}
	for resource, count := range want {
		if m.Snapshot.Resources[resource] != count {
			t.Errorf("%s: %+v, want %+v", resource, m.Snapshot.Resources[resource], count)
		}
	}
	if len(m.Snapshot.Resources) != len(want) {
		t.Errorf("resources: %v", m.Snapshot.Resources)
	}
}

func TestWithoutKeys(t *testing.T) {
	var names []string
	m, err := Read(bytes.NewReader(backup(t, Options{WithoutKeys: true})), func(_ *Manifest, f File, r io.Reader) error {
		names = append(names, f.Name)
		content, err := io.ReadAll(r)
		if strings.Contains(string(content), "keys") {
			t.Errorf("%s has a key", f.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"etcd/snapshot.db", "config/files/apiServer.audit.policyFile", "config/config.yaml"}; !slices.Equal(names, want) {
		t.Errorf("it has %v, want %v", names, want)
	}
	if want := []string{"pki/ca.crt", "pki/ca.key", "encryption/config.yaml", "config/files/journal.credentialsFile"}; !slices.Equal(m.LeftOut, want) {
		t.Errorf("it says that %v were left out, want %v", m.LeftOut, want)
	}
	if m.Snapshot.Resources["secrets"].Encrypted != 1 {
		t.Errorf("it does not say that a secret cannot be read: %v", m.Snapshot.Resources)
	}
}

// TestKeysInCertificateFiles: a file that has a certificate and its private key is left out
// of a backup without keys.
func TestKeysInCertificateFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.pem")
	content := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"
	put(t, file, content)
	source := Source{DataDir: t.TempDir(), ConfigFiles: []config.Field{{Path: "serving.certFile", Value: file}}}
	entries, leftOut, err := identityEntries(source, true)
	if want := []string{"config/files/serving.certFile"}; err != nil || len(entries) != 0 || !slices.Equal(leftOut, want) {
		t.Errorf("without keys: %d entries, left out %v, %v", len(entries), leftOut, err)
	}
	entries, leftOut, err = identityEntries(source, false)
	if err != nil || len(entries) != 1 || len(leftOut) != 0 {
		t.Errorf("with keys: %d entries, left out %v, %v", len(entries), leftOut, err)
	}
}

// TestDamaged: a backup that was cut short anywhere, or in which any byte is
// another, is refused, or its content is still what was saved.
func TestDamaged(t *testing.T) {
	whole := backup(t, Options{})
	for end := 0; end < len(whole); end += 7 {
		if _, err := Read(bytes.NewReader(whole[:end]), nil); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut after %d of %d bytes: %v", end, len(whole), err)
		}
	}
	if _, err := Read(bytes.NewReader(append(slices.Clone(whole), 'x')), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("with something at its end: %v", err)
	}
	_, original, err := openManifest(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	const header = 10 // of gzip: time and system, which are not verified
	for at := header; at < len(whole); at += 3 {
		altered := slices.Clone(whole)
		altered[at] ^= 0x10
		// Compressed data has bits that mean nothing.
		if m, err := Read(bytes.NewReader(altered), nil); err == nil && !reflect.DeepEqual(m, original) {
			t.Fatalf("byte %d of %d was changed and Read returns no error", at, len(whole))
		}
	}
}

// unclosable is a stream whose end fails.
type unclosable struct {
	io.Reader
	err error
}

func (u unclosable) Close() error { return u.err }

// TestFailedSnapshotLeavesNothing: a copy of the database is not left when its stream fails.
func TestFailedSnapshotLeavesNothing(t *testing.T) {
	source, failed := server(t), errors.New("cut off")
	source.Snapshot = func(context.Context) (io.ReadCloser, error) {
		return unclosable{bytes.NewReader(database(t, writes)), failed}, nil
	}
	if _, err := Write(t.Context(), io.Discard, source, Options{}); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
	if entries, err := os.ReadDir(SpoolDir(source.DataDir)); err != nil || len(entries) > 0 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "one.tar.gz")
	if _, err := Save(t.Context(), path, Encryption{}, produce(server(t), Options{})); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !datadir.HasMode(info, 0o600) {
		t.Errorf("the backup is %v, %v", info.Mode(), err)
	}
	if _, err := Save(t.Context(), path, Encryption{}, produce(server(t), Options{})); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("the backup was replaced: %v", err)
	}
	failed := errors.New("no more of it")
	_, err := Save(t.Context(), filepath.Join(dir, "two.tar.gz"), Encryption{}, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(backup(t, Options{})[:100])
		return errors.Join(err, failed)
	})
	if !errors.Is(err, failed) {
		t.Errorf("a producer that fails: %v", err)
	}
	_, err = Save(t.Context(), filepath.Join(dir, "three.tar.gz"), Encryption{}, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(backup(t, Options{})[:100])
		return err
	})
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("a backup that ends too early: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("what failed left something: %v, %v", entries, err)
	}
}

func TestEncryptedBackup(t *testing.T) {
	dir := t.TempDir()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		put(t, path, content)
		return path
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	own, wrong := write("own", identity.String()+"\n"), write("other", other.String()+"\n")
	for name, test := range map[string]struct {
		encryption Encryption
		key        Key
		want       string // of the error, empty for none
	}{
		"recipient":            {Encryption{Recipients: []string{identity.Recipient().String()}}, Key{IdentityFile: own}, ""},
		"recipient, no key":    {Encryption{Recipients: []string{identity.Recipient().String()}}, Key{}, "--identity"},
		"another key":          {Encryption{Recipients: []string{identity.Recipient().String()}}, Key{IdentityFile: wrong}, "decrypt the backup"},
		"no encryption, a key": {Encryption{}, Key{IdentityFile: own}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+test.encryption.Extension())
			if _, err := Save(t.Context(), path, test.encryption, produce(server(t), Options{})); err != nil {
				t.Fatal(err)
			}
			incoming, err := Begin(RestoreConfig{DataDir: t.TempDir(), Stamp: stamp})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = incoming.End() }()
			_, err = incoming.ExtractFile(t.Context(), path, test.key)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("it said %v, want %q", err, test.want)
			}
		})
	}
	if err := (Encryption{Recipients: []string{"age1nobody"}}).Validate(); err == nil {
		t.Error("no recipient: accepted")
	}
}

func TestLatest(t *testing.T) {
	dir := t.TempDir()
	if path, made, err := Latest(filepath.Join(dir, "missing"), ReasonScheduled); path != "" || !made.IsZero() || err != nil {
		t.Errorf("where there is no directory it found %s, %s, %v", path, made, err)
	}
	day := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	want := FileName(ReasonScheduled, Encryption{Recipients: []string{"age1"}}, day)
	for _, name := range []string{
		FileName(ReasonScheduled, Encryption{}, day.Add(-time.Second)), want, FileName(ReasonManual, Encryption{}, day.Add(time.Hour)),
		"scheduled-20990101T000000Z.txt", "scheduled-tomorrow.tar.gz",
	} {
		put(t, filepath.Join(dir, name), "")
	}
	if path, made, err := Latest(dir, ReasonScheduled); path != filepath.Join(dir, want) || !made.Equal(day) || err != nil {
		t.Errorf("found %s, %s, %v; want %s", path, made, err, want)
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	day := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	name := func(reason string, days int) string { return FileName(reason, Encryption{}, day.AddDate(0, 0, days)) }
	for _, name := range []string{
		name(ReasonScheduled, 1), name(ReasonScheduled, 2) + ".age", name(ReasonScheduled, 3), name(ReasonScheduled, 4), name(ReasonManual, 1),
		"scheduled-notes.txt", "scheduled-0.tar.gz", unfinished + "x",
	} {
		put(t, filepath.Join(dir, name), "")
	}
	put(t, filepath.Join(dir, unfinished+"young"), "")
	long := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(filepath.Join(dir, unfinished+"x"), long, long); err != nil {
		t.Fatal(err)
	}
	removed, err := Prune(dir, ReasonScheduled, 2, time.Time{})
	if want := []string{unfinished + "x", name(ReasonScheduled, 1), name(ReasonScheduled, 2) + ".age"}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %v, %v; want %v", removed, err, want)
	}
}

// FuzzRead: the reader returns for any input, and accepts complete backups
// only.
func FuzzRead(f *testing.F) {
	whole := backup(f, Options{})
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(agePrefix))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		content, err := Key{}.Decrypt(bytes.NewReader(data))
		if err != nil {
			return
		}
		read := map[string]bool{}
		m, err := Read(content, func(_ *Manifest, file File, r io.Reader) error {
			if !filepath.IsLocal(file.Name) {
				t.Errorf("%q leads out of the directory", file.Name)
			}
			n, err := io.Copy(io.Discard, r)
			read[file.Name] = n == file.SizeBytes
			return err
		})
		if err != nil {
			return
		}
		for _, file := range m.Files {
			if !read[file.Name] {
				t.Errorf("%s was accepted and is not whole", file.Name)
			}
		}
	})
}

// put writes a file.
func put(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
