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
	"google.golang.org/protobuf/encoding/protowire"
)

// Upstream fact: how etcd writes its log, and what it does not compare
//
// Mirrors: go.etcd.io/etcd/server/v3/storage/wal.walName
//   go.etcd.io/etcd/server/v3/storage/wal.filePipeline.alloc
//   go.etcd.io/etcd/server/v3/storage/wal.Repair
//   go.etcd.io/etcd/server/v3/storage/wal.decoder.decodeRecord
//   go.etcd.io/etcd/server/v3/storage/wal.WAL.ReadAll
//   go.etcd.io/etcd/server/v3/storage/wal.EntryType
//   go.etcd.io/etcd/server/v3/storage/wal/walpb.Record
//   go.etcd.io/etcd/server/v3/storage/wal/walpb.Snapshot
//   go.etcd.io/raft/v3/raftpb.Entry
//   go.etcd.io/etcd/server/v3/etcdserver.bootstrapClusterWithWAL
// Why: with a log that ends before what the database has applied, etcd gives
//   numbers of entries a second time and skips what is written under them. And a
//   member that was stopped before its first entry waits for ever for voters.
//   etcd checks neither.
// Gain: a truncated log is refused at the start, and a first start that was
//   interrupted can be repeated (e2e/faults, TestDamagedFiles).
// Breaks: a sound log is refused, or a truncated one is accepted. TestDamagedFiles,
//   TestOnlyLog and TestStartAfterAnInterruptedFirstStart fail.

// Numbers of the fields of raftpb.Entry and walpb.Snapshot.
const (
	fieldEntryIndex    = 3
	fieldSnapshotIndex = 1
)

// The names of the files of a log.
const (
	logExtension = ".wal"
	// nextFile is the name of the second file of a log before it is used: etcd takes its
	// room in advance.
	nextFile = "0.tmp"
)

// LogFile is the size, in bytes, of each file of a log; etcd takes the room of the next one in
// advance. The default of 64 MB would take that of a disk in memory from servers for tests, and
// a full disk has no room for the next file sooner.
const LogFile = 16 << 20

func init() { wal.SegmentSizeBytes = LogFile }

// OnlyLog returns the path of the file of the log in dir. It returns "" without a log, with
// a second file, and with a file that etcd has renamed because it is broken.
func OnlyLog(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	only := ""
	for _, entry := range entries {
		switch {
		case entry.Name() == nextFile:
		case filepath.Ext(entry.Name()) == logExtension && only == "":
			only = filepath.Join(dir, entry.Name())
		default:
			return "", nil
		}
	}
	return only, nil
}

// LastLogged is the index of the last entry that can be read from the log in
// dir, or 0 without a log. A torn record at the end is what a crash leaves, and
// etcd reads up to there too. Only the newest file is read; etcd reads the
// others.
func LastLogged(dir string) (uint64, error) {
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
		if filepath.Ext(entry.Name()) == logExtension {
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

// lastEntry reads to the end. The first entry of a file follows the last one of
// the file before.
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
			index, err := integer(record.Data, fieldEntryIndex)
			if err != nil {
				return 0, err
			}
			last = index
		case wal.SnapshotType:
			index, err := integer(record.Data, fieldSnapshotIndex)
			if err != nil {
				return 0, err
			}
			last = max(last, index)
		}
	}
}

// integer reads an integer field of an encoded message; a field that is missing
// is 0.
func integer(message []byte, number protowire.Number) (value uint64, err error) {
	err = fields(message, func(n protowire.Number, _ []byte, i uint64) {
		if n == number {
			value = i
		}
	})
	return value, err
}

// HasState reports whether the log file has a state of raft, which is saved with the
// first entry that is committed. It returns true for a log that does not begin as a new
// one does, or that cannot be read: etcd handles these.
func HasState(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	decoder := wal.NewDecoder(fileutil.NewFileReader(f))
	begun := false
	for {
		record := &walpb.Record{}
		err := decoder.Decode(record)
		switch {
		case errors.Is(err, io.EOF):
			return !begun, nil
		case err != nil || record.Type == wal.StateType:
			return true, nil
		case record.Type == wal.CrcType:
			decoder.UpdateCRC(record.Crc)
		case record.Type == wal.MetadataType:
			begun = true
		}
	}
}
