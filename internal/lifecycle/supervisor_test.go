package lifecycle

import (
	"cmp"
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

// waits is a part that is cancelled before it is ready.
func waits(name string, late bool, err error) Part {
	return Part{Name: name, Run: func(ctx context.Context, ready func()) error {
		<-ctx.Done()
		if late {
			ready()
		}
		return fmt.Errorf("wait: %w", cmp.Or(err, context.Cause(ctx)))
	}}
}

// TestStages: whatever ends a server, the parts that run stop in the reverse order, no later stage is started,
// and the last line of the error, which a user reads, is the cause. A minute passes, if nothing ends it before.
func TestStages(t *testing.T) {
	broken := Part{"apiserver", func(context.Context, func()) error { return errBroken }}
	follows := Part{"apiserver", func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		return errOther
	}}
	for name, test := range map[string]struct {
		stages func(j *journal) [][]Part // before controllers
		err    []string
		want   []string
	}{
		"a stop": {func(j *journal) [][]Part { return [][]Part{{j.orderly("etcd")}, {j.orderly("apiserver")}} }, nil,
			[]string{"etcd runs", "apiserver runs", "controllers runs", "ready", "stopping", "controllers stops", "apiserver stops", "etcd stops"}},
		"a stop during the start, ready too late": {func(j *journal) [][]Part {
			return [][]Part{{j.orderly("etcd")}, {waits("apiserver", true, context.Canceled)}}
		}, nil, []string{"etcd runs", "stopping", "etcd stops"}},
		"a start that fails": {func(j *journal) [][]Part {
			return [][]Part{{j.orderly("etcd")}, {waits("identity", false, nil), broken}}
		},
			[]string{"apiserver: broken"}, []string{"etcd runs", "stopping", "etcd stops"}},
		"a part that fails": {func(j *journal) [][]Part {
			return [][]Part{{j.orderly("etcd")}, {dies("apiserver", time.Second, errBroken)}}
		}, []string{"apiserver ended: broken"}, []string{"etcd runs", "controllers runs", "ready", "stopping", "controllers stops", "etcd stops"}},
		"a part that ends": {func(j *journal) [][]Part { return [][]Part{{j.orderly("etcd")}, {dies("apiserver", time.Second, nil)}} },
			[]string{"apiserver ended: it returned without an error"},
			[]string{"etcd runs", "controllers runs", "ready", "stopping", "controllers stops", "etcd stops"}},
		"a part that fails while another one waits for it": {func(*journal) [][]Part {
			return [][]Part{{dies("etcd", time.Second, errBroken)}, {waits("apiserver", false, nil)}}
		}, []string{"etcd ended: broken"}, []string{"stopping"}},
		"two errors": {func(*journal) [][]Part { return [][]Part{{dies("etcd", time.Second, errBroken)}, {follows}} },
			[]string{"apiserver: other", "etcd ended: broken"}, []string{"controllers runs", "ready", "stopping", "controllers stops"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := supervise(ctx, j, append(test.stages(j), []Part{j.orderly("controllers")})...)
				if test.err == nil && err != nil {
					t.Error(err)
				} else if test.err != nil {
					wantError(t, err, test.err...)
				}
				j.want(t, test.want...)
			})
		})
	}
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
