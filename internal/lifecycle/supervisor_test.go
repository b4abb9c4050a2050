package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errBroken = errors.New("broken")
	errOther  = errors.New("other")
)

// journal records what happens, in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, fmt.Sprintf(format, args...))
}

func (j *journal) want(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.entries, want) {
		t.Errorf("happened:\n%s\nwant:\n%s", strings.Join(j.entries, "\n"), strings.Join(want, "\n"))
	}
}

// orderly is a part that becomes ready and stops when it is cancelled.
func (j *journal) orderly(name string) Part {
	return Part{Name: name, Run: func(ctx context.Context, ready func()) error {
		j.add("%s runs", name)
		ready()
		<-ctx.Done()
		j.add("%s stops", name)
		return context.Cause(ctx)
	}}
}

// dies is a part that becomes ready and fails after a while.
func dies(name string, after time.Duration, err error) Part {
	return Part{Name: name, Run: func(ctx context.Context, ready func()) error {
		ready()
		select {
		case <-time.After(after):
			return err
		case <-ctx.Done():
			return nil
		}
	}}
}

// supervise runs the stages one after the other until ctx ends.
func supervise(ctx context.Context, j *journal, stages ...[]Part) error {
	s := New(ctx, Config{
		Log:      slog.New(slog.DiscardHandler),
		Ready:    func(context.Context) { j.add("ready") },
		Stopping: func() { j.add("stopping") },
	})
	return s.Run(func(ctx context.Context) error {
		for _, stage := range stages {
			if err := s.Start(ctx, stage...); err != nil {
				return err
			}
		}
		return nil
	})
}

func wantError(t *testing.T, err error, lines ...string) {
	t.Helper()
	if err == nil || err.Error() != strings.Join(lines, "\n") {
		t.Errorf("the error is %q, want %q", err, lines)
	}
}

func TestPartsStopInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := supervise(ctx, j, []Part{j.orderly("etcd")}, []Part{j.orderly("apiserver")}, []Part{j.orderly("controllers")}); err != nil {
			t.Error(err)
		}
		j.want(t, "etcd runs", "apiserver runs", "controllers runs", "ready", "stopping", "controllers stops", "apiserver stops", "etcd stops")
	})
}

// TestPartsOfAStageStartConcurrently: its parts may wait for each other.
func TestPartsOfAStageStartConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first, second := make(chan struct{}), make(chan struct{})
		meet := func(mine, others chan struct{}) func(context.Context, func()) error {
			return func(ctx context.Context, ready func()) error {
				close(mine)
				<-others
				ready()
				<-ctx.Done()
				return nil
			}
		}
		j := &journal{}
		if err := supervise(ctx, j, []Part{{"a", meet(first, second)}, {"b", meet(second, first)}}); err != nil {
			t.Error(err)
		}
		j.want(t, "ready", "stopping")
	})
}

func TestFailedStartStopsTheStartedParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		slow := Part{"identity", func(ctx context.Context, _ func()) error {
			<-ctx.Done() // the start of this part is cancelled
			return fmt.Errorf("wait: %w", context.Cause(ctx))
		}}
		broken := Part{"apiserver", func(context.Context, func()) error { return errBroken }}
		err := supervise(t.Context(), j, []Part{j.orderly("etcd")}, []Part{slow, broken}, []Part{j.orderly("controllers")})
		wantError(t, err, "apiserver: broken")
		j.want(t, "etcd runs", "stopping", "etcd stops")
	})
}

// TestFailedStartOutsideOfParts: the function of the start fails between two stages.
func TestFailedStartOutsideOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		s := New(t.Context(), Config{Log: slog.New(slog.DiscardHandler)})
		err := s.Run(func(ctx context.Context) error {
			return errors.Join(s.Start(ctx, j.orderly("etcd")), errBroken)
		})
		wantError(t, err, "broken")
		j.want(t, "etcd runs", "etcd stops")
	})
}

func TestFailedPartStopsTheOthers(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"with an error":    {errBroken, "apiserver ended: broken"},
		"without an error": {nil, "apiserver ended: it returned without an error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				err := supervise(t.Context(), j, []Part{j.orderly("etcd")}, []Part{dies("apiserver", time.Hour, test.err)}, []Part{j.orderly("controllers")})
				wantError(t, err, test.want)
				j.want(t, "etcd runs", "controllers runs", "ready", "stopping", "controllers stops", "etcd stops")
			})
		})
	}
}

// TestFailedPartEndsTheStart: a part that starts may wait for the one that has failed.
func TestFailedPartEndsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		waiting := Part{"apiserver", func(ctx context.Context, _ func()) error {
			<-ctx.Done()
			return fmt.Errorf("read from etcd: %w", context.Cause(ctx))
		}}
		err := supervise(t.Context(), j, []Part{dies("etcd", time.Second, errBroken)}, []Part{waiting}, []Part{j.orderly("controllers")})
		wantError(t, err, "etcd ended: broken")
		j.want(t, "stopping")
	})
}

func TestTwoPartsFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := make(chan struct{})
		die := func(err error) func(context.Context, func()) error {
			return func(_ context.Context, ready func()) error {
				ready()
				<-both
				return err
			}
		}
		s := New(t.Context(), Config{Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) { close(both) }})
		err := s.Run(func(ctx context.Context) error {
			return s.Start(ctx, Part{"etcd", die(errBroken)}, Part{"apiserver", die(errOther)})
		})
		lines := strings.Split(fmt.Sprint(err), "\n")
		if !errors.Is(err, errBroken) || !errors.Is(err, errOther) || len(lines) != 2 || !strings.Contains(lines[1], " ended: ") {
			t.Errorf("the error is %q", err)
		}
	})
}

// TestFirstErrorIsTheLastLine: the first error is the cause, and a user reads the last line.
func TestFirstErrorIsTheLastLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		follows := Part{"apiserver", func(ctx context.Context, ready func()) error {
			ready()
			<-ctx.Done()
			return errOther
		}}
		err := supervise(t.Context(), &journal{}, []Part{dies("etcd", time.Second, errBroken)}, []Part{follows})
		wantError(t, err, "apiserver: other", "etcd ended: broken")
	})
}

// TestCancelledStart: the end of the context during a start stops the parts in order, ready
// or not, and no later stage is started.
func TestCancelledStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		slow := Part{"apiserver", func(ctx context.Context, ready func()) error {
			<-ctx.Done()
			ready() // too late
			return fmt.Errorf("wait for etcd: %w", context.Canceled)
		}}
		if err := supervise(ctx, j, []Part{j.orderly("etcd")}, []Part{slow}, []Part{j.orderly("controllers")}); err != nil {
			t.Error(err)
		}
		j.want(t, "etcd runs", "stopping", "etcd stops")
	})
}

func TestHangingStop(t *testing.T) {
	hangs := func(release chan struct{}) Part {
		return Part{"apiserver", func(_ context.Context, ready func()) error {
			ready()
			<-release
			return nil
		}}
	}
	for name, test := range map[string]struct {
		first Part
		took  time.Duration
		want  []string
	}{
		"when asked to stop": {dies("etcd", 24*time.Hour, nil), stopTimeout, []string{"apiserver: it did not end within 20s"}},
		"after a death":      {dies("etcd", 30*time.Second, errBroken), failedStopTimeout, []string{"apiserver: it did not end within 3s", "etcd ended: broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var began time.Time
				s := New(ctx, Config{Log: slog.New(slog.DiscardHandler), Stopping: func() { began = time.Now() }})
				err := s.Run(func(ctx context.Context) error { return s.Start(ctx, test.first, hangs(release)) })
				wantError(t, err, test.want...)
				if took := time.Since(began); took != test.took {
					t.Errorf("the stop took %s, want %s", took, test.took)
				}
			})
		})
	}
}

func TestFailStopsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		s := New(t.Context(), Config{Log: slog.New(slog.DiscardHandler)})
		go func() {
			time.Sleep(time.Minute)
			s.Fail(errBroken)
			s.Fail(errOther) // too late
		}()
		err := s.Run(func(ctx context.Context) error { return s.Start(ctx, j.orderly("etcd")) })
		wantError(t, err, "broken")
		j.want(t, "etcd runs", "etcd stops")
	})
}

// TestReadyRunsUntilTheStop: Run waits for it before anything is stopped.
func TestReadyRunsUntilTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := New(ctx, Config{Log: slog.New(slog.DiscardHandler), Ready: func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second)
			j.add("the watchdog ends")
		}})
		if err := s.Run(func(ctx context.Context) error { return s.Start(ctx, j.orderly("etcd")) }); err != nil {
			t.Error(err)
		}
		j.want(t, "etcd runs", "the watchdog ends", "etcd stops")
	})
}

// TestBackgroundWork: background work is stopped with the parts, and may end before them.
func TestBackgroundWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := New(ctx, Config{Log: slog.New(slog.DiscardHandler)})
		err := s.Run(func(ctx context.Context) error {
			if err := s.Start(ctx, j.orderly("etcd")); err != nil {
				return err
			}
			s.Go(ctx, "backups", func(ctx context.Context) {
				<-ctx.Done()
				j.add("backups stop")
			})
			s.Go(ctx, "rotation", func(context.Context) { j.add("rotation ends") })
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		j.want(t, "etcd runs", "rotation ends", "backups stop", "etcd stops")
	})
}
