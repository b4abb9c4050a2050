package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strings"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// spool copies the snapshot of etcd to a file in the data directory and describes it.
func spool(ctx context.Context, source Source) (copied entry, snapshot *Snapshot, err error) {
	dir := SpoolDir(source.DataDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return copied, nil, fmt.Errorf("make the directory for a snapshot: %w", err)
	}
	sum, size := sha256.New(), int64(0)
	path, err := datadir.WriteTemporary(dir, "snapshot-*.db", func(file *os.File) error {
		stream, err := source.Snapshot(ctx)
		if err != nil {
			return fmt.Errorf("request a snapshot from etcd: %w", err)
		}
		size, err = io.Copy(io.MultiWriter(file, sum), stream)
		return errors.Join(err, stream.Close())
	})
	if err != nil {
		return copied, nil, fmt.Errorf("copy the snapshot of etcd to %s: %w", dir, err)
	}
	if snapshot, err = Describe(path, source.Prefix); err != nil {
		return copied, nil, errors.Join(err, os.Remove(path))
	}
	snapshot.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return entry{File: File{Name: SnapshotName, SizeBytes: size, SHA256: snapshot.SHA256}, path: path}, snapshot, nil
}

// Describe counts the objects of a database. It reads all of it, which also verifies that
// it can be read. Prefix is that of the API servers' keys.
func Describe(path, prefix string) (*Snapshot, error) {
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("open the snapshot: %w", err)
	}
	snapshot := &Snapshot{Resources: map[string]Count{}}
	err = db.View(func(tx *bolt.Tx) error {
		snapshot.SizeBytes = tx.Size()
		keys := tx.Bucket(schema.Key.Name())
		if keys == nil {
			return errors.New("the file is not a database of etcd")
		}
		err := count(keys.Cursor(), prefix, snapshot)
		snapshot.Revision = max(snapshot.Revision, etcdfiles.CompactedRevision(tx))
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	return snapshot, nil
}

// count reads the revisions from the last to the first: the first record of a key is its
// current state. It has hashes of the keys in memory, not the keys.
func count(cursor *bolt.Cursor, prefix string, snapshot *Snapshot) error {
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{}
	for revision, value := cursor.Last(); revision != nil; revision, value = cursor.Prev() {
		kv, err := etcdfiles.ParseRecord(revision, value)
		if err != nil {
			return fmt.Errorf("revision %x: %w", revision, err)
		}
		if snapshot.Revision == 0 {
			snapshot.Revision = kv.Revision
		}
		if kv.Raised {
			continue
		}
		key := maphash.Bytes(seed, kv.Key)
		if _, later := seen[key]; later {
			continue
		}
		seen[key] = struct{}{}
		if kv.Deleted {
			continue
		}
		resource := resourceOf(string(kv.Key), prefix)
		counted := snapshot.Resources[resource]
		counted.Objects++
		if store.IsEncrypted(kv.Value) {
			counted.Encrypted++
		}
		snapshot.Resources[resource] = counted
	}
	return nil
}

// resourceOf returns the resource of a key.
func resourceOf(key, prefix string) string {
	rest, below := strings.CutPrefix(key, strings.TrimSuffix(prefix, "/")+"/")
	if !below {
		return "(others)"
	}
	resource, _ := store.CutKey(rest)
	return resource.String()
}
