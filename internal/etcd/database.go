package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// databaseFile is the member's database in its directory.
func databaseFile(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

// checkData refuses data that etcd would meet with a panic, or whose damage it
// would not notice. It changes nothing.
func checkData(ctx context.Context, dir string) error {
	file := databaseFile(dir)
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil // new, or for etcd to make again from its log
	}
	sealed, err := checkSeal(ctx, dir)
	if err != nil {
		return fmt.Errorf("the database %s is damaged: %w; %s", file, err, remedy)
	}
	if !sealed {
		if err := checkDatabase(ctx, file); err != nil {
			return fmt.Errorf("the database %s cannot be read: %w; %s", file, err, remedy)
		}
	}
	applied, err := appliedIndex(file)
	if err != nil {
		return fmt.Errorf("the database %s cannot be read: %w; %s", file, err, remedy)
	}
	if applied == 0 {
		return nil // nothing was ever written to it
	}
	log := filepath.Join(dir, "member", "wal")
	logged, err := lastLogged(log)
	if err != nil {
		return fmt.Errorf("the log %s cannot be read: %w; %s", log, err, remedy)
	}
	if logged < applied {
		return fmt.Errorf("the log %s ends with entry %d, and the database has entry %d: a part of the log is missing; %s", log, logged, applied, remedy)
	}
	return nil
}

// checkDatabase reads the whole database and holds it against what bbolt and
// etcd write. It sees damage to the structure. What only the seal can tell is
// a value that was altered and still is a value, and a reference that was
// altered and leads to an older copy of the same page.
func checkDatabase(ctx context.Context, file string) error {
	known := map[string]bool{}
	for _, bucket := range schema.AllBuckets {
		known[bucket.String()] = true
	}
	record := &mvccpb.KeyValue{}
	return checkPages(file, func(bucket, key, value []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch name := string(bucket); {
		case !known[name]:
			return errors.New("not one of etcd's buckets")
		case name == schema.Key.String():
			return checkRecord(record, key, value)
		case name == schema.Meta.String():
			return checkMeta(key, value)
		}
		return nil
	})
}

// The keys of etcd's own records are revisions: main, '_', sub, and 't' if the
// record is a deletion.
const (
	revisionLength = 17
	deletionLength = 18
)

// checkRecord checks one revision of one key. The memory of record is used
// again.
func checkRecord(record *mvccpb.KeyValue, key, value []byte) error {
	deletion := len(key) == deletionLength && key[deletionLength-1] == 't'
	if len(key) != revisionLength && !deletion || key[8] != '_' {
		return errors.New("not a revision")
	}
	if len(value) == 0 {
		return nil // what raises the revision in RestoreSnapshot
	}
	*record = mvccpb.KeyValue{Key: record.Key[:0], Value: record.Value[:0]}
	if err := record.Unmarshal(value); err != nil {
		return err
	}
	if len(record.Key) == 0 {
		return errors.New("a record without a key")
	}
	if main := binary.BigEndian.Uint64(key); !deletion && uint64(record.ModRevision) != main {
		return fmt.Errorf("the record says that it is revision %d", record.ModRevision)
	}
	return nil
}

// checkMeta knows the keys by which etcd finds where it stands. An altered one
// would be taken for a missing one.
func checkMeta(key, value []byte) error {
	numbers := [][]byte{schema.MetaConsistentIndexKeyName, schema.MetaTermKeyName}
	others := [][]byte{schema.MetaConfStateName, schema.MetaStorageVersionName, schema.ScheduledCompactKeyName, schema.FinishedCompactKeyName}
	is := func(name []byte) bool { return string(name) == string(key) }
	switch {
	case slices.ContainsFunc(numbers, is) && len(value) != 8:
		return fmt.Errorf("%d bytes for a number", len(value))
	case !slices.ContainsFunc(numbers, is) && !slices.ContainsFunc(others, is):
		return errors.New("not one of etcd's keys")
	}
	return nil
}

// appliedIndex is the last entry of the log that is in the database. The
// pages must have been checked.
func appliedIndex(file string) (index uint64, err error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(schema.Meta.Name())
		if meta == nil {
			return nil
		}
		if value := meta.Get(schema.MetaConsistentIndexKeyName); len(value) == 8 {
			index = binary.BigEndian.Uint64(value)
		}
		if index > 0 && tx.Bucket(schema.Key.Name()) == nil {
			return errors.New("the bucket of the objects is missing")
		}
		return nil
	})
	return index, err
}
