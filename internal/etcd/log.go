package etcd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
)

// lastLogged is the last entry of the log as it can be read. A log whose last
// record is torn is one that a crash has left, and is read up to there, as etcd
// does. Only the newest file is read; etcd reads the others.
//
// It matters because etcd does not compare the two: a log that is shorter than
// what the database has taken from it makes etcd give numbers of entries a
// second time, and pass over what was written under them.
func lastLogged(dir string) (uint64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// The names sort by sequence and have the first entry of each file.
	newest := ""
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".wal" {
			newest = entry.Name()
		}
	}
	if newest == "" {
		return 0, nil
	}
	var sequence, first uint64
	if _, err := fmt.Sscanf(newest, "%016x-%016x.wal", &sequence, &first); err != nil {
		return 0, fmt.Errorf("%s is not the name of a log", newest)
	}
	f, err := os.Open(filepath.Join(dir, newest))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	return lastEntry(wal.NewDecoder(fileutil.NewFileReader(f)), first)
}

// lastEntry reads to the end. What comes first in a file is the entry behind
// those of the file before.
func lastEntry(decoder wal.Decoder, first uint64) (uint64, error) {
	last := max(first, 1) - 1
	for {
		record := &walpb.Record{}
		if err := decoder.Decode(record); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return last, nil
			}
			return 0, err
		}
		switch record.Type {
		case wal.CrcType:
			decoder.UpdateCRC(record.Crc)
		case wal.EntryType:
			entry := raftpb.Entry{}
			if err := entry.Unmarshal(record.Data); err != nil {
				return 0, err
			}
			last = entry.Index
		case wal.SnapshotType:
			snapshot := walpb.Snapshot{}
			if err := snapshot.Unmarshal(record.Data); err != nil {
				return 0, err
			}
			last = max(last, snapshot.Index)
		}
	}
}
