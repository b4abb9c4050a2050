package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoop(t *testing.T) {
	for name, test := range map[string]struct {
		results []Result // of the first calls; done afterwards
		want    []string // when the key is handled
	}{
		"done":                      {nil, []string{"0s"}},
		"due again":                 {[]Result{After(time.Minute)}, []string{"0s", "1m0s"}},
		"retries wait ever longer":  {[]Result{Retry(), Retry(), Retry()}, []string{"0s", "1s", "3s", "7s"}},
		"the wait is bounded":       {[]Result{Retry(), Retry(), Retry(), Retry(), Retry()}, []string{"0s", "1s", "3s", "7s", "12s", "17s"}},
		"a success resets the wait": {[]Result{Retry(), Retry(), After(time.Minute), Retry()}, []string{"0s", "1s", "3s", "1m3s", "1m4s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, handled := time.Now(), []string{}
				loop := New(Config[string]{Workers: 2, MinRetry: time.Second, MaxRetry: 5 * time.Second, Handle: func(_ context.Context, key string) Result {
					if key != "a" {
						t.Errorf("the key is %q", key)
					}
					handled = append(handled, time.Since(began).String())
					if len(handled) <= len(test.results) {
						return test.results[len(handled)-1]
					}
					return Done()
				}})
				loop.Add("a")
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				loop.Run(ctx)
				if !slices.Equal(handled, test.want) {
					t.Errorf("handled after %v, want %v", handled, test.want)
				}
			})
		})
	}
}

// TestKeyIsHandledByOneWorkerAtATime: keys that are added meanwhile are handled
// again.
func TestKeyIsHandledByOneWorkerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		loop := New(Config[int]{Workers: 3, MinRetry: time.Second, MaxRetry: time.Second, Handle: func(_ context.Context, key int) Result {
			mu.Lock()
			events = append(events, fmt.Sprint("begin ", key))
			mu.Unlock()
			time.Sleep(time.Minute)
			mu.Lock()
			events = append(events, fmt.Sprint("end ", key))
			mu.Unlock()
			return Done()
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			loop.Add(1)
			time.Sleep(time.Second)
			loop.Add(1)
			loop.Add(1)
		}()
		loop.Run(ctx)
		if want := []string{"begin 1", "end 1", "begin 1", "end 1"}; !slices.Equal(events, want) {
			t.Errorf("got %v, want %v", events, want)
		}
	})
}

// TestRunWaitsForItsWorkers: Run returns after its workers, whose context has ended.
func TestRunWaitsForItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		loop := New(Config[int]{Workers: 1, MinRetry: time.Second, MaxRetry: time.Second, Handle: func(ctx context.Context, _ int) Result {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return Retry()
		}})
		loop.Add(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		loop.Run(ctx)
		if !ended {
			t.Error("Run returned before the worker")
		}
		loop.Add(2) // does nothing
	})
}
