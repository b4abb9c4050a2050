package etcd

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// populated makes a stopped member with some history, and says what it holds.
func populated(t *testing.T) (dir, content string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "etcd")
	m := start(t, dir)
	for i := range 400 {
		if _, err := m.Client().Put(t.Context(), fmt.Sprintf("/key-%d", i%150), strings.Repeat("value ", i)); err != nil {
			t.Fatal(err)
		}
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

func everything(t *testing.T, m *Member) string {
	t.Helper()
	all, err := m.Client().Get(t.Context(), "/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(all.Header.Revision, all.Kvs)
}

func unseal(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(sealFile(dir)); err != nil {
		t.Fatal(err)
	}
}

// refused fails unless the data is refused with the way out.
func refused(t *testing.T, dir, what string) {
	t.Helper()
	err := checkData(t.Context(), dir)
	if err == nil {
		t.Errorf("%s was not noticed", what)
	} else if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "kube-hyper-mini backup restore") {
		t.Errorf("%s: %v", what, err)
	}
}

// TestAnyAlteredByteIsNoticedAfterAStop is what the seal is for.
func TestAnyAlteredByteIsNoticedAfterAStop(t *testing.T) {
	dir, content := populated(t)
	file := databaseFile(dir)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	used, err := sum(t.Context(), file)
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

// TestDamagedStructureIsNoticedAfterACrash: there is no seal then.
func TestDamagedStructureIsNoticedAfterACrash(t *testing.T) {
	dir, content := populated(t)
	unseal(t, dir)
	file := databaseFile(dir)
	structure := structureOf(t, file)
	if len(structure) < 1000 {
		t.Fatalf("the structure has only %d bytes", len(structure))
	}
	for i := 0; i < len(structure); i += 5 {
		flip(t, file, structure[i])
		refused(t, dir, fmt.Sprintf("a flipped byte at %d", structure[i]))
		flip(t, file, structure[i])
	}
	m := start(t, dir)
	defer stop(t, m)
	if got := everything(t, m); got != content {
		t.Errorf("it holds %s", got)
	}
}

// structureOf lists the bytes of the pages in use that are neither keys nor
// values. It leaves out the low bytes of a reference to another page: a wrong
// one may lead to a page that was freed, and that is an older copy of the right
// one.
func structureOf(t *testing.T, file string) []int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	p := &pages{file: f, fileSize: int64(len(data))}
	if err := p.readMeta(); err != nil {
		t.Fatal(err)
	}
	p.seen = make([]uint64, p.end/64+1)
	err = p.walk(p.root, 0, nil, nil, func(bucket element) error {
		return p.bucket(bucket, func(element) error { return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	var structure []int
	for id := uint64(2); id < p.end; {
		page := data[int64(id)*p.pageSize:]
		if p.seen[id/64]&(1<<(id%64)) == 0 {
			id++
			continue
		}
		branch := binary.NativeEndian.Uint16(page[8:]) == branchPage
		for at := range pageHeader + elementSize*int(binary.NativeEndian.Uint16(page[10:])) {
			if within := (at - pageHeader) % elementSize; branch && at >= pageHeader && (within == 8 || within == 9) {
				continue
			}
			structure = append(structure, int(int64(id)*p.pageSize)+at)
		}
		id += 1 + uint64(binary.NativeEndian.Uint32(page[12:]))
	}
	return structure
}

// TestOneTornMetaIsNoDamage: it is what a crash leaves, and etcd's log has
// what the older one lacks.
func TestOneTornMetaIsNoDamage(t *testing.T) {
	for _, page := range []int{0, 1} {
		dir, content := populated(t)
		unseal(t, dir)
		flip(t, databaseFile(dir), page*os.Getpagesize()+pageHeader+metaSummed)
		m := start(t, dir)
		if got := everything(t, m); got != content {
			t.Errorf("without meta %d it holds %s", page, got)
		}
		stop(t, m)
	}
}

// TestAMissingPartIsNoticed: never an empty start, and never one that passes
// over what is written next.
func TestAMissingPartIsNoticed(t *testing.T) {
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
			return os.Truncate(databaseFile(dir), 8*int64(os.Getpagesize()))
		},
		"the content of the database": func(dir string) error { return os.Truncate(databaseFile(dir), 0) },
	} {
		for _, sealed := range []bool{true, false} {
			dir, _ := populated(t)
			if !sealed {
				unseal(t, dir)
			}
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			m, err := Start(t.Context(), Config{Dir: dir, QuotaBytes: 64 << 20, Logger: zap.NewNop()})
			if err == nil {
				t.Errorf("without %s (sealed: %t) it starts", name, sealed)
				stop(t, m)
			} else if !strings.Contains(err.Error(), "kube-hyper-mini backup restore") {
				t.Errorf("without %s (sealed: %t): %v", name, sealed, err)
			}
		}
	}
}

// TestALostDatabaseIsMadeAgainOrRefused: the log has all of a young member's
// entries, and not those of an older one.
func TestALostDatabaseIsMadeAgainOrRefused(t *testing.T) {
	dir, content := populated(t)
	if err := os.Remove(databaseFile(dir)); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dir: dir, QuotaBytes: 64 << 20, Logger: zap.NewNop()}
	m, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := everything(t, m); got != content {
		t.Errorf("it holds %s", got)
	}
	for i := range 11000 { // more than etcd keeps before it cuts its log
		if _, err := m.Client().Put(t.Context(), "/key", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, m)
	if err := os.Remove(databaseFile(dir)); err != nil {
		t.Fatal(err)
	}
	m, err = Start(t.Context(), cfg)
	if err == nil {
		defer stop(t, m)
		t.Fatalf("it starts and holds %s", everything(t, m))
	}
	if !strings.Contains(err.Error(), "kube-hyper-mini backup restore") {
		t.Error(err)
	}
}
