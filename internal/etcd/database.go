package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// maxChecked bounds what a start reads of the database to look for damage, in
// bytes. Of a larger one it reads evenly spread parts. 256 MiB take less than
// half a second from a disk with 600 MB/s.
const maxChecked = 256 << 20

// databaseFile is the member's database in its directory.
func databaseFile(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

// checkData refuses data that etcd would meet with a panic, or whose damage it
// would not notice. It changes nothing. The end of ctx cuts it short.
func checkData(ctx context.Context, dir string) error {
	file := databaseFile(dir)
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil // new, or for etcd to make again from its log
	}
	summed, err := verifyChecksum(ctx, dir)
	if err != nil {
		return fmt.Errorf("the database %s is damaged: %w; %s", file, err, remedy)
	}
	if !summed {
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
	logged, err := etcdfiles.LastLogged(log)
	if err != nil {
		return fmt.Errorf("the log %s cannot be read: %w; %s", log, err, remedy)
	}
	if logged < applied {
		return fmt.Errorf("the log %s ends with entry %d, and the database has entry %d: a part of the log is missing; %s", log, logged, applied, remedy)
	}
	return nil
}

// checkDatabase compares the database with what bbolt and etcd write, and finds
// damage to the structure. Only the checksum finds a value that was altered and
// still is a value, and a reference that was altered and leads to an older copy
// of the same page.
func checkDatabase(ctx context.Context, file string) error {
	known := map[string]bool{}
	for _, bucket := range schema.AllBuckets {
		known[bucket.String()] = true
	}
	return etcdfiles.CheckPages(ctx, file, maxChecked, func(bucket, key, value []byte) error {
		switch name := string(bucket); {
		case !known[name]:
			return errors.New("not one of etcd's buckets")
		case name == schema.Key.String():
			_, err := etcdfiles.ParseRecord(key, value)
			return err
		case name == schema.Meta.String():
			return checkMeta(key, value)
		}
		return nil
	})
}

// checkMeta checks the numbers by which etcd finds its place in the log. Keys
// that this version of etcd does not know are those of another one.
func checkMeta(key, value []byte) error {
	switch string(key) {
	case string(schema.MetaConsistentIndexKeyName), string(schema.MetaTermKeyName):
		if len(value) != 8 {
			return fmt.Errorf("%d bytes for a number", len(value))
		}
	}
	return nil
}

// appliedIndex is the last entry of the log that is in the database, or 0 if
// nothing was written to it. The pages must have been checked.
func appliedIndex(file string) (index uint64, err error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		meta, keys := tx.Bucket(schema.Meta.Name()), tx.Bucket(schema.Key.Name())
		if meta != nil {
			if value := meta.Get(schema.MetaConsistentIndexKeyName); len(value) == 8 {
				index = binary.BigEndian.Uint64(value)
			}
		}
		switch {
		case index > 0 && keys == nil:
			return errors.New("the bucket of the objects is missing")
		case index == 0 && keys != nil:
			if first, _ := keys.Cursor().First(); first != nil {
				return errors.New("there are objects, and the index of the last applied entry is missing")
			}
		}
		return nil
	})
	return index, err
}
