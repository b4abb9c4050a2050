package etcd

import (
	"context"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// TestStopWithWatches: a stream that looks up former values while the member stops does not
// read the closed database, which would end the process.
func TestStopWithWatches(t *testing.T) {
	t.Parallel()
	for range 4 {
		m, stop, err := Start(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 64 << 20, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			for {
				if _, err := m.Client().Put(t.Context(), "key", "value"); err != nil {
					return // the stop
				}
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		for range 300 {
			watch := m.NewWatcher().Watch(ctx, "key", clientv3.WithPrevKV())
			<-watch
		}
		cancel()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		<-written
	}
}
