package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// populated makes a stopped member with some history, and returns its objects.
func populated(t *testing.T) (dir, content string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "etcd")
	m := start(t, dir)
	for i := range 400 {
		put(t, m, fmt.Sprintf("/key-%d", i%150), strings.Repeat("value ", i))
	}
	if err := m.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := m.Client().Delete(t.Context(), fmt.Sprintf("/key-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	content = everything(t, m)
	stop(t, m)
	return dir, content
}

func everything(t *testing.T, m *running) string {
	t.Helper()
	all, err := m.Client().Get(t.Context(), "/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(all.Header.Revision, all.Kvs)
}

func dropChecksum(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(checksumFile(dir)); err != nil {
		t.Fatal(err)
	}
}

// refused fails unless the data is refused with the remedy.
func refused(t *testing.T, dir, what string) {
	t.Helper()
	if err := Verify(t.Context(), dir); err == nil {
		t.Errorf("%s was not noticed", what)
	} else {
		hasRemedy(t, err, dir, what)
	}
}

func hasRemedy(t *testing.T, err error, dir, what string) {
	t.Helper()
	if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "kube-hyper-mini backup restore --data-dir "+filepath.Dir(dir)+" FILE") {
		t.Errorf("%s: %v", what, err)
	}
}

// TestAlteredBytesAreFoundAfterAStop is the reason for the checksum.
func TestAlteredBytesAreFoundAfterAStop(t *testing.T) {
	t.Parallel()
	dir, content := populated(t)
	file := DatabaseFile(dir)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	used, err := sum(t.Context(), file, maxChecked)
	if err != nil {
		t.Fatal(err)
	}
	for at := 7; at < int(used.Used); at += int(used.Used) / 100 {
		flip(t, file, at)
		refused(t, dir, fmt.Sprintf("a flipped byte at %d", at))
		flip(t, file, at)
	}
	if err := os.Truncate(file, int64(len(good)/2)); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, "half of the file")
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	m := start(t, dir)
	defer stop(t, m)
	if got := everything(t, m); got != content {
		t.Errorf("it holds %s", got)
	}
}

// flip inverts a byte.
func flip(t *testing.T, file string, at int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the write has been checked
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, int64(at)); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// TestMain is the program that checks databases, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == CheckCommand {
		if err := CheckDatabase(os.Args[2], os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	CheckWith(program)
	os.Exit(m.Run())
}

// TestDamageIsFoundAfterACrash: without a checksum, damaged data is refused and sound data
// is not, whether bbolt reports the damage or ends the process.
func TestDamageIsFoundAfterACrash(t *testing.T) {
	t.Parallel()
	dir, content := populated(t)
	dropChecksum(t, dir)
	file := DatabaseFile(dir)
	used, err := sum(t.Context(), file, maxChecked)
	if err != nil {
		t.Fatal(err)
	}
	pageSize, counts := os.Getpagesize(), 0
	for page := 2; page < int(used.Used)/pageSize; page++ {
		const countAt = 10 // of the elements, in the header of a page
		flip(t, file, page*pageSize+countAt)
		if err := Verify(t.Context(), dir); err != nil {
			counts++
			hasRemedy(t, err, dir, fmt.Sprintf("an altered page %d", page))
		}
		flip(t, file, page*pageSize+countAt)
	}
	if counts < 5 {
		t.Errorf("only %d pages are in use", counts)
	}
	m := start(t, dir)
	defer stop(t, m)
	if got := everything(t, m); got != content {
		t.Errorf("it holds %s", got)
	}
}

// TestPiecesOfALargeDatabase: the checksum of a database above the bound is that of pieces.
func TestPiecesOfALargeDatabase(t *testing.T) {
	t.Parallel()
	dir, _ := populated(t)
	file := DatabaseFile(dir)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := sum(t.Context(), file, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if whole.Used > checksumPiece {
		t.Fatalf("%d bytes are more than one piece", whole.Used)
	}
	pieces, err := sum(t.Context(), file, 1)
	if err != nil || *pieces != *whole {
		t.Errorf("the first piece is the whole: %+v, %+v, %v", pieces, whole, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sum(cancelled, file, 1); err == nil {
		t.Error("the end of the context does not cut it short")
	}
}

// TestUnknownMetaKeysAreAccepted: another version of etcd may have written them.
func TestUnknownMetaKeysAreAccepted(t *testing.T) {
	t.Parallel()
	dir, content := populated(t)
	dropChecksum(t, dir)
	change := func(change func(meta *bbolt.Bucket) error) {
		t.Helper()
		db, err := bbolt.Open(DatabaseFile(dir), 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket(schema.Meta.Name())) }), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	change(func(meta *bbolt.Bucket) error { return meta.Put([]byte("someLaterVersion"), []byte("x")) })
	m := start(t, dir)
	if got := everything(t, m); got != content {
		t.Errorf("it holds %s", got)
	}
	stop(t, m)
	// Without the index etcd would apply its log a second time.
	dropChecksum(t, dir)
	change(func(meta *bbolt.Bucket) error { return meta.Delete(schema.MetaConsistentIndexKeyName) })
	refused(t, dir, "a missing index")
}

// TestOneTornMetaPageIsAccepted: a crash leaves one, and etcd's log has what the older page
// lacks.
func TestOneTornMetaPageIsAccepted(t *testing.T) {
	t.Parallel()
	const checksumOfMeta = 16 + 56 // in its page
	for _, page := range []int{0, 1} {
		dir, content := populated(t)
		dropChecksum(t, dir)
		flip(t, DatabaseFile(dir), page*os.Getpagesize()+checksumOfMeta)
		m := start(t, dir)
		if got := everything(t, m); got != content {
			t.Errorf("without meta %d it holds %s", page, got)
		}
		stop(t, m)
	}
}

// TestMissingFilesAreFound: without one of its files, a member does not start empty, and
// does not skip later writes.
func TestMissingFilesAreFound(t *testing.T) {
	t.Parallel()
	newest := func(dir string) string {
		files, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
		if err != nil || len(files) == 0 {
			t.Fatalf("logs: %v %v", files, err)
		}
		return slices.Max(files)
	}
	for name, damage := range map[string]func(dir string) error{
		"the log":                func(dir string) error { return os.RemoveAll(filepath.Join(dir, "member", "wal")) },
		"the end of the log":     func(dir string) error { return os.Truncate(newest(dir), 5000) },
		"the content of the log": func(dir string) error { return os.Truncate(newest(dir), 0) },
		"the end of the database": func(dir string) error {
			return os.Truncate(DatabaseFile(dir), 8*int64(os.Getpagesize()))
		},
		"the content of the database": func(dir string) error { return os.Truncate(DatabaseFile(dir), 0) },
	} {
		for _, summed := range []bool{true, false} {
			dir, _ := populated(t)
			if !summed {
				dropChecksum(t, dir)
			}
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			m, err := begin(t.Context(), Config{Dir: dir, QuotaBytes: 64 << 20, Logger: zap.NewNop()})
			if err == nil {
				t.Errorf("without %s (summed: %t) it starts", name, summed)
				stop(t, m)
			} else if !strings.Contains(err.Error(), "kube-hyper-mini backup restore") {
				t.Errorf("without %s (summed: %t): %v", name, summed, err)
			}
		}
	}
}

// TestLostDatabaseIsRecreatedOrRefused: the log has all entries of a young member, and not
// all of an older one.
func TestLostDatabaseIsRecreatedOrRefused(t *testing.T) {
	t.Parallel()
	dir, content := populated(t)
	if err := os.Remove(DatabaseFile(dir)); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dir: dir, QuotaBytes: 64 << 20, Logger: zap.NewNop()}
	m := startWith(t, cfg)
	if got := everything(t, m); got != content {
		t.Errorf("it holds %s", got)
	}
	for i := range 11000 { // more than etcd keeps before it cuts its log
		put(t, m, "/key", fmt.Sprint(i))
	}
	stop(t, m)
	if err := os.Remove(DatabaseFile(dir)); err != nil {
		t.Fatal(err)
	}
	m, err := begin(t.Context(), cfg)
	if err == nil {
		defer stop(t, m)
		t.Fatalf("it starts and holds %s", everything(t, m))
	}
	if !strings.Contains(err.Error(), "kube-hyper-mini backup restore") {
		t.Error(err)
	}
}
