package etcd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestLogInMemory: etcd does not keep written values in the memory of its log, before or
// after a restart.
func TestLogInMemory(t *testing.T) {
	const count, size = 2400, 50_000
	config := Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 256 << 20, Logger: zap.NewNop()}
	before := heap()
	m := startWith(t, config)
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(rand.IntN(256))
	}
	for i := range count {
		put(t, m, fmt.Sprint("key", i), string(value))
	}
	expect := func(when string) {
		t.Helper()
		deadline := time.Now().Add(time.Minute) // what etcd has not committed yet is in memory, too
		for grown := heap() - before; grown > count*size/2; grown = heap() - before {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d MB of heap, with %d MB of values in the database", when, grown>>20, count*size>>20)
			}
		}
	}
	expect("after the writes")
	stop(t, m)
	m = startWith(t, config)
	defer stop(t, m)
	if _, err := m.Client().Get(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	expect("after a restart")
}

// heap returns the live heap, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers have released
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestLogOfLargeValues: a snapshot is made before many files of the log were written, so
// that a start does not read them, and old files are removed.
func TestLogOfLargeValues(t *testing.T) {
	t.Parallel()
	m := startWith(t, Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 2 << 30, Logger: zap.NewNop()})
	defer stop(t, m)
	value := strings.Repeat("x", 1<<20)
	for deadline, written := time.Now().Add(2*time.Minute), 0; ; written++ {
		if written == 2*maxLogFiles*logFile>>20 {
			value = "small"
		}
		put(t, m, "key", value)
		files, err := logFilesIn(m.config.Dir)
		if err = errors.Join(err, m.TrimLog()); err != nil {
			t.Fatal(err)
		}
		if value == "small" && len(files) <= 2 { // the current one and one before the snapshot
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d files of the log after %d writes", len(files), written)
		}
	}
}
