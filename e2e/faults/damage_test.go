package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// flip inverts a byte of a file.
func flip(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the write has been checked
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedFiles: a clear error that names the way back, and never a start
// without what is missing. The files stay as they are.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	origin := harness.Start(t)
	if err := put(t, origin, "precious"); err != nil {
		t.Fatal(err)
	}
	if code := origin.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	killed := filepath.Join(t.TempDir(), "killed") // the same without a stop
	if err := os.CopyFS(killed, os.DirFS(origin.Dir)); err != nil {
		t.Fatal(err)
	}
	harness.StartIn(t, killed).Kill()

	db := func(dir string) string { return filepath.Join(dir, "etcd", "member", "snap", "db") }
	wal := func(dir string) string {
		files, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal"))
		if err != nil || len(files) == 0 {
			t.Fatalf("logs: %v %v", files, err)
		}
		return slices.Max(files)
	}
	head, data := harness.WALRecord(t, wal(killed))
	const remedy = "kube-hyper-mini backup restore FILE"
	for name, c := range map[string]struct {
		from   string
		damage func(dir string) error
		want   []string
	}{
		"a truncated log":         {killed, func(dir string) error { return os.Truncate(wal(dir), 20000) }, []string{"etcd/member/wal", "the end of the log is missing"}},
		"an empty log":            {killed, func(dir string) error { return os.Truncate(wal(dir), 0) }, []string{"etcd/member/wal", "the end of the log is missing"}},
		"no log":                  {origin.Dir, func(dir string) error { return os.RemoveAll(filepath.Dir(wal(dir))) }, []string{"etcd/member/wal", "the end of the log is missing"}},
		"a flipped byte in it":    {killed, func(dir string) error { flip(t, wal(dir), int64(data)); return nil }, []string{"etcd/member/wal", "crc mismatch"}},
		"one in a length in it":   {killed, func(dir string) error { flip(t, wal(dir), int64(head)+5); return nil }, []string{"etcd/member/wal", "the end of the log is missing"}},
		"a truncated database":    {killed, func(dir string) error { return os.Truncate(db(dir), 20000) }, []string{"snap/db cannot be read"}},
		"an empty database":       {killed, func(dir string) error { return os.Truncate(db(dir), 0) }, []string{"snap/db cannot be read"}},
		"a flipped byte in a key": {origin.Dir, func(dir string) error { flip(t, db(dir), valueAt(t, db(dir), "precious")); return nil }, []string{"snap/db is damaged", "seal.json"}},
		"one in a page":           {killed, func(dir string) error { return flipPages(t, db(dir)) }, []string{"snap/db cannot be read", "page"}},
		"no data of etcd":         {origin.Dir, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "etcd", "member")) }, []string{"was used before", "has no data: move", "version.json"}},
		"no directory of etcd":    {killed, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "etcd")) }, []string{"was used before", "has no data: move", "version.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(c.from)); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first start must not change the result of the second
				ends(t, harness.Launch(t, dir), append(c.want, dir, remedy)...)
			}
		})
	}
	for name, from := range map[string]string{"none after a stop": origin.Dir, "none after a kill": killed} {
		t.Run(name, func(t *testing.T) { undamaged(t, from) })
	}
}

// undamaged checks that an intact copy starts: otherwise each test would pass
// because no copy can be started.
func undamaged(t *testing.T, from string) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	s := harness.StartIn(t, dir)
	if _, err := s.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "precious", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
}

// valueAt returns the offset of the name in the database, as a part of a key.
func valueAt(t *testing.T, file, name string) int64 {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("/registry/configmaps/default/"+name))
	if at < 0 {
		t.Fatalf("%s is not in %s", name, file)
	}
	return int64(at)
}

// flipPages alters the number of elements of every page but the two with the
// roots, so that those that are in use are among them.
func flipPages(t *testing.T, file string) error {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	const countAt = 10 // in the header of a page of bbolt
	pageSize := int64(os.Getpagesize())
	for page := int64(2); page < min(info.Size()/pageSize, 100); page++ {
		flip(t, file, page*pageSize+countAt)
	}
	return nil
}
