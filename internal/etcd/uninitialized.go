package etcd

import (
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// Discard removes the data of a first start that was interrupted before the server
// was ready. A database that can be read and has keys is kept: it is not from such a
// start.
func Discard(dir string) error {
	member := datadir.ToMemberDir(dir)
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
	member := datadir.ToMemberDir(dir)
	uninitialized, err := isUninitialized(dir)
	if err != nil || !uninitialized {
		return err
	}
	if err := os.RemoveAll(member); err != nil {
		return fmt.Errorf("remove the data of an interrupted first start in %s: %w", member, err)
	}
	return nil
}

func isUninitialized(dir string) (bool, error) {
	first, err := etcdfiles.OnlyLog(datadir.ToWALDir(dir))
	if err != nil {
		return false, fmt.Errorf("check for an interrupted first start: %w", err)
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
	return hasNoKey(DatabaseFile(dir))
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
		keys := tx.Bucket(schema.Key.Name())
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
