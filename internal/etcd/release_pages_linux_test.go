package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// residentKB is how much of the file is in the resident memory of this process, in kB.
func residentKB(t *testing.T, file string) int {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	size, of := 0, false
	for line := range strings.Lines(string(smaps)) {
		switch fields := strings.Fields(line); {
		case strings.HasSuffix(line, " "+file+"\n"):
			of = true
		case of && fields[0] == "Rss:":
			kB, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			size, of = size+kB, false
		}
	}
	return size
}

// TestReleasePages: pages of the database that were read leave the resident memory, and
// can be read again, also while others write.
func TestReleasePages(t *testing.T) {
	const count, size = 100, 100_000
	config := Config{Dir: filepath.Join(t.TempDir(), "a directory"), QuotaBytes: 256 << 20, Logger: zap.NewNop()}
	m := startWith(t, config)
	defer func() { stop(t, m) }()
	value := strings.Repeat("v", size)
	for i := range count {
		if _, err := m.Client().Put(t.Context(), fmt.Sprint("key", i), value); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, m)
	m = startWith(t, config)
	read := func() {
		t.Helper()
		all, err := m.Client().Get(t.Context(), "key", clientv3.WithPrefix())
		if err != nil || len(all.Kvs) != count || string(all.Kvs[count-1].Value) != value {
			t.Fatalf("%v: read %d keys", err, len(all.Kvs))
		}
	}
	file, before := DatabaseFile(config.Dir), 0
	for range 10 { // where memory is short, the kernel takes pages back at once
		read()
		if before = residentKB(t, file); before >= count*size>>10 {
			break
		}
	}
	if before < count*size>>10 {
		t.Fatalf("%d kB of the database are resident after all was read", before)
	}
	if err := m.ReleasePages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := residentKB(t, file); after > before/10 {
		t.Errorf("%d kB of the database are resident, %d before", after, before)
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range 200 {
			if _, err := m.Client().Put(t.Context(), fmt.Sprint("other", i), "value"); err != nil {
				t.Error(err)
			}
		}
	})
	for range 20 {
		if err := m.ReleasePages(t.Context()); err != nil {
			t.Error(err)
		}
		read()
	}
	writing.Wait()
	if err := m.Defragment(t.Context(), func() func() { return func() {} }); err != nil {
		t.Fatal(err)
	}
	if err := m.ReleasePages(t.Context()); err != nil {
		t.Error(err)
	}
	read()
}
