package apiserver

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// recordedFactory records when its informers start.
type recordedFactory struct{ started func() }

func (f recordedFactory) StartWithContext(context.Context) { f.started() }

func (f recordedFactory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool { return nil }

// TestInformersStartAfterTheWatchCaches: an informer that is refused by a watch
// cache retries only after a second, and the start waits for it.
func TestInformersStartAfterTheWatchCaches(t *testing.T) {
	for name, test := range map[string]struct {
		stores time.Duration // until the watch caches are filled
		want   time.Duration // until the informers start
	}{
		"filled at once":                    {0, 0},
		"filled soon":                       {cacheFillTimeout / 2, cacheFillTimeout / 2},
		"the wait for full etcd is bounded": {time.Hour, cacheFillTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCaches(t.Context(), func(ctx context.Context) error {
					select {
					case <-time.After(test.stores):
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
				defer c.stop()
				began, after := time.Now(), atomic.Int64{}
				after.Store(-1)
				c.factories = []informerFactory{recordedFactory{func() { after.Store(int64(time.Since(began))) }}}
				c.fill(t.Context())
				if got := time.Duration(after.Load()); got != test.want {
					t.Errorf("the informers started after %v, want %v", got, test.want)
				}
			})
		})
	}
}
