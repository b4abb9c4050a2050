package admin

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// emptyStore has no objects. It fails the first compaction, which ends a rotation before it removes the
// old key, and has another server for the next calls of Alone.
type emptyStore struct {
	datastore.Datastore
	clientv3.KV
	interrupted bool
	shared      int
}

func (s *emptyStore) Connection() storage.Connection {
	return storage.Connection{Client: &clientv3.Client{KV: s}}
}

func (s *emptyStore) Alone(context.Context) (bool, error) {
	s.shared--
	return s.shared < 0, nil
}

func (*emptyStore) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}}, nil
}

func (s *emptyStore) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	if !s.interrupted {
		s.interrupted = true
		return nil, errors.New("interrupted")
	}
	return nil, nil
}

// interruptedRotation returns a rotator whose rotation is unfinished, and its log.
func interruptedRotation(t *testing.T, store *emptyStore) (*KeyRotator, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	k := &KeyRotator{
		File: filepath.Join(t.TempDir(), "config.yaml"), Root: "/registry", Store: store,
		Ready: func() bool { return true }, Backups: backup.NewMaker(backup.MakerConfig{}),
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	if _, err := encryption.Ensure(k.File, []string{"secrets"}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Rotate(t.Context()); err == nil || !encryption.Interrupted(k.File) {
		t.Fatalf("the rotation was not interrupted: %v", err)
	}
	return k, log
}

// TestResume: an interrupted rotation ends when the server is alone, with one warning until then.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &emptyStore{}
		k, log := interruptedRotation(t, store)
		store.shared = 3
		begin := time.Now()
		k.Resume(t.Context())
		if took := time.Since(begin); encryption.Interrupted(k.File) || took != 3*resumeInterval {
			t.Errorf("after %s, unfinished: %t", took, encryption.Interrupted(k.File))
		}
		if count := strings.Count(log.String(), "level=WARN"); count != 1 {
			t.Errorf("%d warnings, want 1:\n%s", count, log)
		}
	})
}

// TestResumeAfterClient: a rotation that a client has continued is not followed by another one.
func TestResumeAfterClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := interruptedRotation(t, &emptyStore{})
		release, err := k.Backups.TakeTurn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go k.Resume(t.Context())
		synctest.Wait()
		other := *k
		other.Backups = backup.NewMaker(backup.MakerConfig{})
		if _, err := other.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		finished, err := os.ReadFile(k.File)
		if err != nil {
			t.Fatal(err)
		}
		release()
		synctest.Wait()
		time.Sleep(resumeInterval)
		if now, err := os.ReadFile(k.File); err != nil || !bytes.Equal(now, finished) {
			t.Errorf("%v; the key was rotated again:\n%s", err, now)
		}
	})
}
