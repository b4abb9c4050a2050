package storage

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
)

func startMember(t testing.TB) (member *etcd.Member, stop func() error) {
	t.Helper()
	member, stop, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 64 << 20, Logger: zap.NewNop()})
	if err == nil {
		err = member.WaitReady(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return member, stop
}

func newStorage(t testing.TB) (*Storage, *clientv3.Client) {
	t.Helper()
	member, stop := startMember(t)
	s := New(Connection{Client: member.Client(), NewWatcher: member.NewWatcher, Endpoint: "embedded", Single: true},
		Config{Prefix: "/registry", CompactionInterval: time.Hour, Timeout: time.Minute}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		s.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return s, member.Client()
}

// TestStatusOfAClosedMember: a request that a stop has ended may outlive etcd.
func TestStatusOfAClosedMember(t *testing.T) {
	member, stop := startMember(t)
	connection := Connection{Client: member.Client(), Endpoint: "embedded", Single: true}
	if _, err := connection.Status(t.Context()); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := connection.Status(ended); err == nil {
		t.Error("etcd answers after its end")
	}
}

// blockingStatus is a client whose Status waits.
type blockingStatus struct {
	clientv3.Maintenance
	begun, goOn chan struct{}
}

func (b blockingStatus) Status(context.Context, string) (*clientv3.StatusResponse, error) {
	b.begun <- struct{}{}
	<-b.goOn
	return &clientv3.StatusResponse{Version: "3.6.0"}, nil
}

// TestCloseWaitsForStatus: etcd is closed after Close, and its status must not be read then. The
// status of each server is read by those that scrape others of the process.
func TestCloseWaitsForStatus(t *testing.T) {
	member, stop := startMember(t)
	defer func() { _ = stop() }()
	client := *member.Client()
	blocking := blockingStatus{client.Maintenance, make(chan struct{}), make(chan struct{})}
	client.Maintenance = blocking
	s := New(Connection{Client: &client, NewWatcher: member.NewWatcher, Endpoint: t.Name(), Single: true},
		Config{Prefix: "/registry", CompactionInterval: time.Hour, Timeout: time.Minute}, slog.New(slog.DiscardHandler))
	<-blocking.begun // by the check of its features
	read := make(chan error)
	go func() {
		_, err := s.Status(t.Context())
		read <- err
	}()
	<-blocking.begun
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	<-s.background.Done() // Close waits from now on
	select {
	case <-closed:
		t.Fatal("Close has not waited for reads of the status")
	case <-time.After(50 * time.Millisecond):
	}
	close(blocking.goOn)
	if err := <-read; err != nil {
		t.Error(err)
	}
	<-closed
	if _, err := s.Status(t.Context()); err == nil {
		t.Error("the status is read after Close")
	}
}

// stoppedWrites is a KV whose first write is stopped.
type stoppedWrites struct {
	clientv3.KV
	write stoppedWrite
}

type stoppedWrite struct {
	clientv3.Txn
	stop func()
}

func (s stoppedWrites) Txn(context.Context) clientv3.Txn { return s.write }

func (s stoppedWrite) Then(...clientv3.Op) clientv3.Txn { return s }

func (s stoppedWrite) Commit() (*clientv3.TxnResponse, error) {
	s.stop()
	return nil, errors.New("etcdserver: request cancelled")
}

// TestFirstObjectsOfAStoppedStart: a stop is not a failure of the write.
func TestFirstObjectsOfAStoppedStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &Storage{connection: Connection{Client: &clientv3.Client{KV: stoppedWrites{write: stoppedWrite{stop: cancel}}}}}
	getter := fixedGetter{codec: unstructured.UnstructuredJSONScheme}
	object := FirstObject{Stores: getter, Resource: configMaps, Object: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap"}}}
	if err := s.CreateFirst(ctx, []FirstObject{object}); !errors.Is(err, context.Canceled) {
		t.Errorf("the write said: %v", err)
	}
}

func TestHasObjects(t *testing.T) {
	s, client := newStorage(t)
	for _, key := range []string{"/registry/configmaps/full/a", "/registry/example.com/widgets/full/a", "/registry/example.com/widgets-not/empty/a"} {
		if _, err := client.Put(t.Context(), key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	s.recordPrefix(configMaps, "configmaps")
	for _, test := range []struct {
		resource  schema.GroupResource
		namespace string
		want      bool
	}{
		{configMaps, "full", true},
		{configMaps, "ful", false}, // the beginning of another name
		{configMaps, "empty", false},
		{widgets, "full", true}, // a custom resource that has no store yet
		{widgets, "empty", false},
	} {
		got, err := s.HasObjects(t.Context(), test.resource, test.namespace)
		if err != nil || got != test.want {
			t.Errorf("%s in %s: %v, %v", test.resource, test.namespace, got, err)
		}
	}
}

func TestHealthAndStatus(t *testing.T) {
	s, _ := newStorage(t)
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
	if status, err := s.Status(t.Context()); err != nil || status.DbSize == 0 {
		t.Errorf("got %+v, %v", status, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Health(ctx); err == nil {
		t.Error("a cancelled check says that all is well")
	}
}

// TestReadsSeeWatchedWrites: a controller that reads an object after an event
// must not get an older one than the event's.
func TestReadsSeeWatchedWrites(t *testing.T) {
	s, client := newStorage(t)
	kv, watcher := s.connection.gated(client.KV), s.connection.NewWatcher()
	events := watcher.Watch(t.Context(), "key")
	const writes = 2000
	go func() {
		for range writes {
			if _, err := client.Put(t.Context(), "key", "value"); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for seen := 0; seen < writes; {
		response := <-events
		for _, event := range response.Events {
			seen++
			got, err := kv.Get(t.Context(), "key")
			if err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision < event.Kv.ModRevision {
				t.Fatalf("an event was of revision %d, the read after it %+v, %v", event.Kv.ModRevision, got, err)
			}
		}
	}
	if err := watcher.Close(); err != nil {
		t.Error(err)
	}
}
