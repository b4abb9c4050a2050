package etcd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
)

// Discard removes the data of a first start that was cut short before anything
// was served. A database that can be read and has keys is not of such a start:
// it stays, and the member starts on it.
func Discard(dir string) error {
	member := filepath.Join(dir, "member")
	if empty, err := hasNoKey(databaseFile(dir)); err == nil && !empty {
		return nil
	}
	if err := errors.Join(os.RemoveAll(member), breakSeal(dir)); err != nil {
		return fmt.Errorf("remove what an interrupted first start has left in %s: %w", member, err)
	}
	return nil
}

// removeUnborn removes the files of a member that was stopped before it had
// written that it is a member of its cluster. etcd takes them for a member
// that has been started before, and would wait for ever for voters that its
// log does not name. Nothing was committed to such a log and no key is in the
// database, so that nothing is lost. In any doubt the files stay.
func removeUnborn(dir string) error {
	member := filepath.Join(dir, "member")
	unborn, err := isUnborn(member)
	if err != nil || !unborn {
		return err
	}
	if err := os.RemoveAll(member); err != nil {
		return fmt.Errorf("remove what an interrupted first start has left in %s: %w", member, err)
	}
	return nil
}

func isUnborn(member string) (bool, error) {
	logs, err := os.ReadDir(filepath.Join(member, "wal"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for an interrupted first start: %w", err)
	}
	first := ""
	for _, entry := range logs {
		switch {
		case entry.Name() == "0.tmp": // the next file, preallocated
		case filepath.Ext(entry.Name()) == ".wal" && first == "":
			first = filepath.Join(member, "wal", entry.Name())
		default: // a second log, or one that etcd has set aside as broken
			return false, nil
		}
	}
	if first == "" {
		return false, nil
	}
	started, err := hasState(first)
	if err != nil || started {
		return false, err
	}
	return hasNoKey(filepath.Join(member, "snap", "db"))
}

// hasState says whether raft has saved a state, which it does with the first
// entry that it commits. A log that does not begin as a new one does, or that
// cannot be read, is said to have one: it is for etcd to judge.
func hasState(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, fmt.Errorf("look for an interrupted first start: %w", err)
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

// hasNoKey says whether the database is missing or empty.
func hasNoKey(file string) (bool, error) {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return false, fmt.Errorf("look for an interrupted first start: %w", err)
	}
	empty := false
	err = db.View(func(tx *bbolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		if keys == nil {
			empty = true
			return nil
		}
		first, _ := keys.Cursor().First()
		empty = first == nil
		return nil
	})
	return empty, errors.Join(err, db.Close())
}
