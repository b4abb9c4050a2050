package harness

import (
	"encoding/binary"
	"os"
	"testing"
)

// WALRecord finds a record of etcd's log that is followed by others: where its
// head begins, which is its length, and a place in its data.
func WALRecord(t testing.TB, wal string) (head, data int) {
	t.Helper()
	const headSize, enough = 8, 200
	log, err := os.ReadFile(wal)
	if err != nil {
		t.Fatal(err)
	}
	for head+headSize <= len(log) {
		field := binary.LittleEndian.Uint64(log[head:])
		length, padding := int(field&(1<<56-1)), 0
		if field>>63 == 1 {
			padding = int(field >> 56 & 7)
		}
		if head > 10000 && length > enough {
			return head, head + headSize + length/2
		}
		head += headSize + length + padding
	}
	t.Fatalf("no record of %d bytes in %s", enough, wal)
	return 0, 0
}
