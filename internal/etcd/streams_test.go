package etcd

import (
	"context"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestStopWithWatches: a stream that looks up former values while the member stops does not
// read the closed database, which would end the process.
func TestStopWithWatches(t *testing.T) {
	t.Parallel()
	for range 4 {
		m := start(t, filepath.Join(t.TempDir(), "etcd"))
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
		stop(t, m)
		<-written
	}
}
