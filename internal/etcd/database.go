package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// DatabaseFile returns the path of the database of the member in dir.
func DatabaseFile(dir string) string { return datadir.ToBackendFileName(dir) }

// Verify checks the data of a member that is not running, as [Start] does before etcd
// opens it. It returns an error for data with which etcd would panic, and for damage that
// etcd does not detect: a [DamageError]. A file that this user may not read is no damage. It
// changes nothing, and returns early when ctx ends. Without a checksum, the program of
// [CheckWith] checks the database.
func Verify(ctx context.Context, dir string) error {
	err := verify(ctx, dir)
	if err == nil || errors.Is(err, errNotChecked) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &DamageError{Damage: err, dir: dir}
}

// DamageError says what is damaged and what to do.
type DamageError struct {
	// Damage names the damaged files or pages, without the remedy.
	Damage error

	dir string
}

// Error implements error.
func (e *DamageError) Error() string { return e.Damage.Error() + "; " + remedy(e.dir) }

// Unwrap returns the damage.
func (e *DamageError) Unwrap() error { return e.Damage }

func verify(ctx context.Context, dir string) error {
	file := DatabaseFile(dir)
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil // a new member, or etcd makes the database from its log
	}
	hasChecksum, err := verifyChecksum(ctx, dir)
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err != nil {
		return fmt.Errorf("the database %s is damaged: %w", file, err)
	}
	if !hasChecksum {
		if err := checkDatabase(ctx, file); err != nil {
			return fmt.Errorf("the database %s cannot be read: %w", file, err)
		}
	}
	applied, err := appliedIndex(file)
	if err != nil {
		return fmt.Errorf("the database %s cannot be read: %w", file, err)
	}
	if applied == 0 {
		return nil // an empty database
	}
	log := datadir.ToWALDir(dir)
	logged, err := lastLogged(log)
	if err != nil {
		return fmt.Errorf("the log %s cannot be read: %w", log, err)
	}
	if logged < applied {
		return fmt.Errorf("the log %s ends with entry %d, but the database has applied entry %d: the end of the log "+
			"is missing", log, logged, applied)
	}
	return nil
}

// lastLogged returns the index of the last entry that can be read from the log in dir; 0
// without a log. A torn record at the end is what a crash leaves: etcd reads up to there, too.
func lastLogged(dir string) (uint64, error) {
	if !wal.Exist(dir) {
		return 0, nil
	}
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return 0, err
	}
	var last walpb.Snapshot
	if len(snapshots) > 0 {
		last = snapshots[len(snapshots)-1]
	}
	log, err := wal.OpenForRead(zap.NewNop(), dir, last)
	if err != nil {
		return 0, err
	}
	_, _, entries, err := log.ReadAll()                         // it closes the files
	if err != nil && !errors.Is(err, wal.ErrSnapshotNotFound) { // the log ends before the snapshot
		return 0, err
	}
	if len(entries) > 0 {
		return entries[len(entries)-1].Index, nil
	}
	return last.Index, nil
}

// appliedIndex returns the index of the last log entry that the database has applied;
// 0 for an empty database.
func appliedIndex(file string) (index uint64, err error) {
	err = readDatabase(file, func(tx *bbolt.Tx) error {
		meta, keys := tx.Bucket(schema.Meta.Name()), tx.Bucket(schema.Key.Name())
		if meta != nil {
			if value := meta.Get(schema.MetaConsistentIndexKeyName); len(value) == 8 {
				index = binary.BigEndian.Uint64(value)
			}
		}
		switch {
		case index > 0 && keys == nil:
			return errors.New("the bucket \"key\", which has the objects, is missing")
		case index == 0 && keys != nil:
			if first, _ := keys.Cursor().First(); first != nil {
				return errors.New("there are objects, but the index of the last applied entry is missing")
			}
		}
		return nil
	})
	return index, err
}

// Discard removes the data of a first start that was interrupted before the server
// was ready. A database that can be read and has keys is kept: it is not from such a
// start.
func Discard(dir string) error {
	if hasKeys(DatabaseFile(dir)) {
		return nil
	}
	member := datadir.ToMemberDir(dir)
	if err := errors.Join(os.RemoveAll(member), removeChecksum(dir)); err != nil {
		return fmt.Errorf("remove the data of an interrupted first start in %s: %w", member, err)
	}
	return nil
}

// hasKeys reports whether the database can be read and has keys.
func hasKeys(file string) (has bool) {
	err := readDatabase(file, func(tx *bbolt.Tx) error {
		if keys := tx.Bucket(schema.Key.Name()); keys != nil {
			first, _ := keys.Cursor().First()
			has = first != nil
		}
		return nil
	})
	return err == nil && has
}

// readDatabase calls read with a transaction of a database that no process has open.
func readDatabase(file string, read func(*bbolt.Tx) error) (err error) {
	db, err := bbolt.Open(file, 0, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(read)
}
