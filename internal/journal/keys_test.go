package journal

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// breakingWatcher ends the first watch after it has delivered an encrypted value.
type breakingWatcher struct {
	clientv3.Watcher
	begun     *atomic.Int32 // watches
	delivered chan<- struct{}
}

func (w breakingWatcher) Watch(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	from := w.Watcher.Watch(ctx, key, options...)
	if w.begun.Add(1) > 1 {
		return from
	}
	to := make(chan clientv3.WatchResponse)
	go func() {
		defer close(to)
		for response := range from {
			select {
			case to <- response:
			case <-ctx.Done():
				return
			}
			if len(response.Events) > 0 {
				w.delivered <- struct{}{}
			}
			if slices.ContainsFunc(response.Events, isEncrypted) {
				return
			}
		}
	}()
	return to
}

// TestNewKeyInDroppedSegment: a new key and the first value that needs it are recorded
// although the watch breaks before their segment is closed.
func TestNewKeyInDroppedSegment(t *testing.T) {
	t.Parallel()
	journal, dataDir := NewDirectory(t.TempDir()), t.TempDir()
	var begun atomic.Int32
	delivered := make(chan struct{}, 2)
	f := start(t, journal, dataDir, func(c *Config) {
		c.Interval = time.Hour // only a stop closes the segment
		connect := c.Connect
		c.Connect = func() storage.Connection {
			connection := connect()
			watcher := connection.NewWatcher
			connection.NewWatcher = func() clientv3.Watcher { return breakingWatcher{watcher(), &begun, delivered} }
			return connection
		}
	})
	f.caughtUp() // the base does not have the key
	f.put("plain", "1")
	<-delivered
	key := filepath.Join(dataDir, "encryption", "config.yaml")
	if err := errors.Join(os.Mkdir(filepath.Dir(key), 0o700), os.WriteFile(key, []byte("new key"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f.put("secret", store.EncryptedPrefix+"secretbox:v1:new:1")
	<-delivered
	await(t, "the writer watches again", func() error {
		if begun.Load() < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	f.stopWriter()

	restored := filepath.Join(t.TempDir(), "data")
	got, _, err := restoreTo(t, journal, Target{}, restored)
	if err != nil || !maps.Equal(got, f.state(0)) {
		t.Errorf("restored %v, %v", got, err)
	}
	if data, err := os.ReadFile(filepath.Join(restored, "encryption", "config.yaml")); err != nil || string(data) != "new key" {
		t.Errorf("the restored key is %q, %v", data, err)
	}
}

// TestChangedFileOfAnIdleServer is recorded although the server writes nothing else before it stops.
func TestChangedFileOfAnIdleServer(t *testing.T) {
	t.Parallel()
	journal, dataDir := NewDirectory(t.TempDir()), t.TempDir()
	f := start(t, journal, dataDir, nil)
	f.caughtUp()
	revoked := filepath.Join(dataDir, "pki", "revoked")
	if err := errors.Join(os.Mkdir(filepath.Dir(revoked), 0o700), os.WriteFile(revoked, []byte("1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.writer.RecordFiles(t.Context()), (*Writer)(nil).RecordFiles(t.Context())); err != nil {
		t.Fatal(err)
	}
	f.stopWriter()
	restored := filepath.Join(t.TempDir(), "data")
	if _, _, err := restoreTo(t, journal, Target{}, restored); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(restored, "pki", "revoked")); err != nil {
		t.Error(err)
	}
}
