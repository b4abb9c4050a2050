package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestFormerRelease: a chain of a release that wrote no ends, and whose directory was
// "archive", is restored without a warning, and continues after the upgrade.
func TestFormerRelease(t *testing.T) {
	t.Parallel()
	store := NewDirectory(t.TempDir())
	f := start(t, store, t.TempDir(), func(c *Config) {
		base := c.Base
		c.Base = func(ctx context.Context, chain, _, path string) (*backup.Manifest, error) {
			return base(ctx, chain, "", path)
		}
	})
	f.history(3)
	f.caughtUp()
	f.stopWriter()
	var st state
	if _, err := datadir.ReadJSON(f.writer.stateFile(), &st); err != nil {
		t.Fatal(err)
	}
	st.Key = ""
	err := errors.Join(datadir.WriteJSON(f.writer.stateFile(), st), os.RemoveAll(store.file(chainName(1, endsDir))),
		os.Rename(f.writer.dir, filepath.Join(f.dataDir, "archive")))
	if err != nil {
		t.Fatal(err)
	}
	restoresAll(t, f, store)
	f.history(3)
	f.startWriter()
	f.history(3)
	f.caughtUp()
	f.stopWriter()
	restoresAll(t, f, store)
	hasChains(t, store, 1)
}

// TestRecordedLeases of former releases: what follows them is read.
func TestRecordedLeases(t *testing.T) {
	b, err := newBuilder()
	if err != nil {
		t.Fatal(err)
	}
	lease := binary.AppendUvarint(binary.AppendUvarint([]byte{entryLease}, 7), 3600)
	event := &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte("key"), Lease: 7, ModRevision: 2, Version: 1}}
	if err := errors.Join(b.write(lease), b.add(2, time.Now(), []*clientv3.Event{event})); err != nil {
		t.Fatal(err)
	}
	_, segment, err := b.finish(backup.Encryption{})
	if err != nil {
		t.Fatal(err)
	}
	_, payload, err := readHeader(segment)
	if err != nil {
		t.Fatal(err)
	}
	var read []Change
	err = readEntries(payload, backup.Key{}, Visitor{Changed: func(r Revision) error {
		read = append(read, r.Changes...)
		return nil
	}})
	if err != nil || len(read) != 1 || !bytes.Equal(read[0].Key, []byte("key")) || read[0].Lease != 7 {
		t.Errorf("read %+v, %v", read, err)
	}
}
