package backup

import (
	"bytes"
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
)

// Upstream fact: the mark of an encrypted value
//
// Mirrors: k8s.io/apiserver/pkg/server/options/encryptionconfig.aesGCMTransformerPrefixV1
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.secretboxTransformerPrefixV1
// Why: a backup says how many objects are encrypted, and has no keys.
// Gain: one sees that a backup needs the encryption keys.
// Breaks: the count is 0.

// encryptedPrefix is what upstream's transformers put before every value that
// they have encrypted (k8s.io/apiserver/pkg/server/options/encryptionconfig).
var encryptedPrefix = []byte("k8s:enc:")

// spool copies etcd's snapshot to the file and describes it.
func spool(ctx context.Context, file *os.File, open func(context.Context) (io.ReadCloser, error), prefix string) (*Snapshot, error) {
	stream, err := open(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask etcd for a snapshot: %w", err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), stream)
	if err = errors.Join(err, stream.Close(), file.Sync()); err != nil {
		return nil, fmt.Errorf("copy the snapshot of etcd to %s: %w", file.Name(), err)
	}
	snapshot, err := describe(file.Name(), prefix)
	if err != nil {
		return nil, err
	}
	snapshot.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return snapshot, nil
}

// describe reads a database through, which also shows that it can be read.
func describe(path, prefix string) (*Snapshot, error) {
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("open the snapshot: %w", err)
	}
	snapshot := &Snapshot{Resources: map[string]Count{}}
	err = db.View(func(tx *bolt.Tx) error {
		snapshot.SizeBytes = tx.Size()
		keys := tx.Bucket(schema.Key.Name())
		if keys == nil {
			return errors.New("it is not a database of etcd")
		}
		return count(keys.Cursor(), prefix, snapshot)
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	return snapshot, nil
}

// count walks the revisions from the last to the first, so that the first
// that is seen of a key is its present state. It remembers hashes of the keys:
// the keys themselves would be a good part of the database.
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
		if bytes.HasPrefix(kv.Value, encryptedPrefix) {
			counted.Encrypted++
		}
		snapshot.Resources[resource] = counted
	}
	return nil
}

// resourceOf reads the resource from a key. The API server writes
// PREFIX/RESOURCE/... for what comes with it and PREFIX/GROUP/RESOURCE/... for
// what is registered; groups of the latter have a dot.
func resourceOf(key, prefix string) string {
	rest, below := strings.CutPrefix(key, strings.TrimSuffix(prefix, "/")+"/")
	if !below {
		return "(others)"
	}
	first, rest, _ := strings.Cut(rest, "/")
	if !strings.Contains(first, ".") {
		return first
	}
	resource, _, _ := strings.Cut(rest, "/")
	return resource + "." + first
}
