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

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// spool copies the snapshot of etcd to the file and returns its description.
func spool(ctx context.Context, file *os.File, open func(context.Context) (io.ReadCloser, error),
	prefix string) (*Snapshot, error) {
	stream, err := open(ctx)
	if err != nil {
		return nil, fmt.Errorf("request a snapshot from etcd: %w", err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), stream)
	if err = errors.Join(err, stream.Close(), file.Sync()); err != nil {
		return nil, fmt.Errorf("copy the snapshot of etcd to %s: %w", file.Name(), err)
	}
	snapshot, err := Describe(file.Name(), prefix)
	if err != nil {
		return nil, err
	}
	snapshot.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return snapshot, nil
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
