package journal

import (
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

const (
	// batchSize is how many changes a transaction of the database has.
	batchSize = 5000
	// leaseTTL, in seconds, is that of leases that are younger than the base: of events, by
	// default.
	leaseTTL = 3600
)

// replay applies changes to a snapshot of etcd.
type replay struct {
	path    string
	db      *bolt.DB
	tx      *bolt.Tx
	pending int
	last    int64 // revision
	at      time.Time
	changes int
	leases  map[int64]bool // of changes
}

// openReplay opens a snapshot file, which ends with its sum.
func openReplay(path string) (*replay, error) {
	if err := etcdfiles.RemoveSum(path); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	// The file is not used before finish has synced it.
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true,
		FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	r := &replay{path: path, db: db, leases: map[int64]bool{}}
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if key, _ := r.tx.Bucket(schema.Key.Name()).Cursor().Last(); key != nil {
		r.last = mvcc.BytesToBucketKey(key).Main
	}
	return r, nil
}

// begin begins a transaction.
func (r *replay) begin() (err error) {
	if r.tx, err = r.db.Begin(true); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	for _, bucket := range []schemaBucket{schema.Key, schema.Lease} {
		if r.tx.Bucket(bucket.Name()) == nil {
			return errors.Join(fmt.Errorf("replay: the snapshot has no bucket %s: it is not a database of etcd", bucket.Name()),
				r.tx.Rollback())
		}
	}
	return nil
}

// schemaBucket is backend.Bucket, as much as is used of it.
type schemaBucket interface{ Name() []byte }

// apply writes a revision, unless the snapshot has it.
func (r *replay) apply(revision Revision) error {
	if revision.Number <= r.last {
		return nil
	}
	keys := r.tx.Bucket(schema.Key.Name())
	keys.FillPercent = 0.9 // keys are appended
	for sub, change := range revision.Changes {
		if err := keys.Put(etcdfiles.RevisionKey(revision.Number, int64(sub), change.Deleted), change.Record); err != nil {
			return fmt.Errorf("replay revision %d: %w", revision.Number, err)
		}
		if change.Lease != 0 {
			r.leases[change.Lease] = true
		}
	}
	r.last, r.at = revision.Number, revision.Time
	r.changes += len(revision.Changes)
	if r.pending += len(revision.Changes); r.pending < batchSize {
		return nil
	}
	r.pending = 0
	if err := r.tx.Commit(); err != nil {
		return fmt.Errorf("replay revision %d: %w", revision.Number, err)
	}
	return r.begin()
}

// putLeases adds the leases that changes refer to and the snapshot lacks. Without
// its lease a key would never expire.
func (r *replay) putLeases() error {
	bucket := r.tx.Bucket(schema.Lease.Name())
	for id := range r.leases {
		key := etcdfiles.LeaseKey(id)
		if bucket.Get(key) != nil {
			continue
		}
		if err := bucket.Put(key, etcdfiles.Lease(id, leaseTTL)); err != nil {
			return fmt.Errorf("replay lease %x: %w", id, err)
		}
	}
	return nil
}

// abandon closes the database after a failure.
func (r *replay) abandon() error { return errors.Join(r.tx.Rollback(), r.db.Close()) }

// finish makes the file a snapshot again.
func (r *replay) finish() (err error) {
	if err := r.putLeases(); err != nil {
		return errors.Join(err, r.abandon())
	}
	err = r.tx.Commit()
	if err == nil {
		err = r.db.Sync()
	}
	if err = errors.Join(err, r.db.Close()); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if err := etcdfiles.AddSum(r.path); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}
