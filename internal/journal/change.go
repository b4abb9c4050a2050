package journal

import (
	"encoding/binary"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protowire"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// Change is one key of one revision.
type Change struct {
	// Deleted means that the revision removes the key.
	Deleted bool
	// Record is the mvccpb.KeyValue that etcd stores, in protobuf. A deletion has
	// the key only.
	Record []byte
	// Key, Value, Version and Lease are parts of Record. Version counts the writes
	// since the key was created, from 1.
	Key, Value []byte
	Version    int64
	Lease      int64
}

// Revision has the changes of one transaction, in its order.
type Revision struct {
	Number int64
	// Time is when the writer saw it.
	Time    time.Time
	Changes []Change
}

// File is a file of the identity that has changed since the base.
type File struct {
	// Name is that in a backup: pki/..., encryption/...
	Name    string `json:"name"`
	Content []byte `json:"content"`
	// Removed means that the file was removed.
	Removed bool `json:"removed,omitempty"`
}

// Entries of a payload: a kind and its content.
const (
	entryRevision = 1
	entryLease    = 2 // of former releases: a restore makes the leases of the changes
	entryFile     = 3
)

// appendRevision appends the entry of the events of one revision. changes are those bytes
// of it whose sum is the digest of the revision.
func appendRevision(b []byte, number int64, at time.Time, events []*clientv3.Event,
	scratch []byte) (payload, newScratch, changes []byte) {
	b = append(b, entryRevision)
	b = binary.AppendUvarint(b, uint64(number))
	b = binary.AppendUvarint(b, uint64(at.UnixMilli()))
	begin := len(b)
	b = binary.AppendUvarint(b, uint64(len(events)))
	for _, event := range events {
		deleted := byte(0)
		if event.Type == mvccpb.DELETE {
			deleted = 1
		}
		scratch = etcdfiles.AppendRecord(scratch[:0], event.Kv, event.Type == mvccpb.DELETE)
		b = append(b, deleted)
		b = protowire.AppendBytes(b, scratch)
	}
	return b, scratch, b[begin:]
}

// digestOf is the digest of the changes of one revision.
func digestOf(events []*clientv3.Event) string {
	_, _, changes := appendRevision(nil, 0, time.Time{}, events, nil)
	return sumOf(changes)
}

func appendFile(b []byte, file File) []byte {
	removed := byte(0)
	if file.Removed {
		removed = 1
	}
	b = append(b, entryFile, removed)
	b = protowire.AppendString(b, file.Name)
	return protowire.AppendBytes(b, file.Content)
}

// errEnd means that an entry is cut short.
var errEnd = errors.New("an entry ends too early")

// decoder reads the fields of entries. After an error it returns zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.err = errEnd
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) integer() int64 {
	value, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.err, d.rest = errEnd, nil
		return 0
	}
	d.rest = d.rest[n:]
	return int64(value)
}

func (d *decoder) bytes() []byte {
	value, n := protowire.ConsumeBytes(d.rest)
	if n < 0 {
		d.err, d.rest = errEnd, nil
		return nil
	}
	d.rest = d.rest[n:]
	return value
}

func (d *decoder) revision() Revision {
	r := Revision{Number: d.integer(), Time: time.UnixMilli(d.integer())}
	for count := d.integer(); count > 0 && d.err == nil; count-- {
		change := Change{Deleted: d.byte() == 1, Record: d.bytes()}
		if d.err == nil {
			d.err = change.parse()
		}
		r.Changes = append(r.Changes, change)
	}
	return r
}

// parse reads the parts of the record.
func (c *Change) parse() error {
	state, err := etcdfiles.ParseState(c.Record)
	if err != nil {
		return err
	}
	c.Key, c.Value, c.Version, c.Lease = state.Key, state.Value, state.Version, state.Lease
	return nil
}
