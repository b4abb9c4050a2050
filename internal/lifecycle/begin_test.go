package lifecycle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		ctx, cancel := context.WithCancel(t.Context())
		stop, err := Begin(ctx, j.orderly("etcd").Run)
		if err != nil {
			t.Fatal(err)
		}
		cancel() // the part is ready: only stop ends it
		synctest.Wait()
		j.want(t, "etcd runs")
		for range 2 {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		j.want(t, "etcd runs", "etcd stops")
	})
}

func TestBeginFails(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"with an error":    {errBroken, "broken"},
		"without an error": {nil, "it returned without an error"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Begin(t.Context(), func(context.Context, func()) error { return test.err })
			wantError(t, err, test.want)
		})
	}
}

// TestBeginIsCancelled: the part is waited for, and the error is the reason.
func TestBeginIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := false
		_, err := Begin(ctx, func(ctx context.Context, ready func()) error {
			cancel(errBroken)
			<-ctx.Done()
			ready() // too late
			time.Sleep(time.Second)
			ended = true
			return nil
		})
		wantError(t, err, "broken")
		if !ended {
			t.Error("the part is not waited for")
		}
	})
}

// TestStopReportsAFailure: the part failed after it was ready.
func TestStopReportsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, err := Begin(t.Context(), dies("etcd", time.Second, errBroken).Run)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := stop(); !errors.Is(err, errBroken) {
			t.Errorf("stop returned %v", err)
		}
	})
}
