package harness

import (
	"encoding/binary"
	"os"
	"testing"
)

// WALRecord finds a record of etcd's log that is followed by others: the offset
// in bytes where its head begins, which is its length, and one in the middle of
// its data. It fails the test when there is none.
func WALRecord(t testing.TB, wal string) (head, data int) {
	t.Helper()
	const headSize, enough = 8, 200
	log, err := os.ReadFile(wal)
	if err != nil {
		t.Fatal(err)
	}
	for head+2*headSize <= len(log) {
		field := binary.LittleEndian.Uint64(log[head:])
		length, padding := int(field&(1<<56-1)), 0
		if field>>63 == 1 {
			padding = int(field >> 56 & 7)
		}
		next := head + headSize + length + padding
		followed := next+headSize <= len(log) && binary.LittleEndian.Uint64(log[next:]) != 0
		if head > 10000 && length > enough && followed {
			return head, head + headSize + length/2
		}
		head = next
	}
	t.Fatalf("no record of %d bytes in %s", enough, wal)
	return 0, 0
}
