package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// Discard removes the data of a first start that was interrupted before the server
// was ready. A database that can be read and has keys is kept: it is not from such a
// start.
func Discard(dir string) error {
	member := filepath.Join(dir, "member")
	if empty, err := hasNoKey(DatabaseFile(dir)); err == nil && !empty {
		return nil
	}
	if err := errors.Join(os.RemoveAll(member), removeChecksum(dir)); err != nil {
		return fmt.Errorf("remove the data of an interrupted first start in %s: %w", member, err)
	}
	return nil
}

// removeUninitialized removes the files of a member that was stopped before its log
// named it as a member of its cluster. etcd would wait for voters for ever. The log
// has no committed entry and the database has no key, so that no object is lost. In
// all other cases the files are kept.
func removeUninitialized(dir string) error {
	member := filepath.Join(dir, "member")
	uninitialized, err := isUninitialized(member)
	if err != nil || !uninitialized {
		return err
	}
	if err := os.RemoveAll(member); err != nil {
		return fmt.Errorf("remove the data of an interrupted first start in %s: %w", member, err)
	}
	return nil
}

func isUninitialized(member string) (bool, error) {
	logs, err := os.ReadDir(filepath.Join(member, "wal"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check for an interrupted first start: %w", err)
	}
	first := ""
	for _, entry := range logs {
		switch {
		case entry.Name() == "0.tmp": // the next file, preallocated
		case filepath.Ext(entry.Name()) == ".wal" && first == "":
			first = filepath.Join(member, "wal", entry.Name())
		default: // a second log file, or one that etcd has renamed because it is broken
			return false, nil
		}
	}
	if first == "" {
		return false, nil
	}
	started, err := etcdfiles.HasState(first)
	if err != nil {
		return false, fmt.Errorf("check for an interrupted first start: %w", err)
	}
	if started {
		return false, nil
	}
	return hasNoKey(filepath.Join(member, "snap", "db"))
}

// hasNoKey reports whether the database is missing or empty.
func hasNoKey(file string) (bool, error) {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return false, fmt.Errorf("check for an interrupted first start: %w", err)
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
