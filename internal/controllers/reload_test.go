package controllers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// changes is a source of changes that a test makes to a file.
type changes struct {
	t       *testing.T
	file    string
	mu      sync.Mutex
	content int
	next    chan struct{}
}

func newChanges(t *testing.T) *changes {
	c := &changes{t: t, file: filepath.Join(t.TempDir(), "file"), next: make(chan struct{})}
	c.change()
	return c
}

func (c *changes) changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// change changes the file.
func (c *changes) change() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.content++
	if err := os.WriteFile(c.file, []byte(strconv.Itoa(c.content)), 0o600); err != nil {
		c.t.Error(err)
	}
	close(c.next)
	c.next = make(chan struct{})
}

// changeOther reports a change of another file.
func (c *changes) changeOther() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// TestReloading: after a change the new controller replaces the old one; if it cannot be
// built, the old one continues.
func TestReloading(t *testing.T) {
	source := newChanges(t)
	ctx, cancel := context.WithCancel(t.Context())
	env := &environment{runCtx: ctx, config: Config{Files: Files{Changed: source.changed}, Log: slog.New(slog.DiscardHandler)}}
	built, events := 0, make(chan int, 10)
	tried := make(chan int, 10)
	run, err := reloading(env, []string{source.file}, &requestCounter{}, func(context.Context) (func(context.Context), error) {
		built++
		number := built
		tried <- number
		if number == 2 {
			return nil, errors.New("the key is being replaced")
		}
		return func(ctx context.Context) {
			events <- number
			<-ctx.Done()
			events <- -number
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	expect := func(from <-chan int, want int) {
		t.Helper()
		if got := <-from; got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
	expect(tried, 1)
	expect(events, 1)
	source.change()
	expect(tried, 2)
	source.change()
	expect(tried, 3)
	expect(events, -1)
	expect(events, 3)
	cancel()
	expect(events, -3)
	<-ended
}

// TestReloadingTriesAgain: a controller that could not be built is built without another
// change.
func TestReloadingTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newChanges(t)
		env := &environment{runCtx: t.Context(), config: Config{Files: Files{Changed: source.changed}, Log: slog.New(slog.DiscardHandler)}}
		built, running := 0, make(chan int, 1)
		run, err := reloading(env, []string{source.file}, &requestCounter{}, func(context.Context) (func(context.Context), error) {
			built++
			number := built
			if number == 2 || number == 3 {
				return nil, errors.New("the disk has an error")
			}
			return func(ctx context.Context) {
				running <- number
				<-ctx.Done()
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			run(ctx)
		}()
		if number := <-running; number != 1 {
			t.Errorf("controller %d runs first", number)
		}
		source.change()
		if number := <-running; number != 4 {
			t.Errorf("controller %d runs after two attempts that failed", number)
		}
		cancel()
		<-ended
	})
}

// blockedTransport answers requests when it is told to.
type blockedTransport struct{ begun, answer chan struct{} }

// RoundTrip implements [http.RoundTripper].
func (b blockedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	b.begun <- struct{}{}
	select {
	case <-b.answer:
		return httptest.NewRecorder().Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestReloadingInterruptsNoRequests: a controller is stopped when its requests have ended,
// and goes on when files have changed that it does not read.
func TestReloadingInterruptsNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newChanges(t)
		env := &environment{runCtx: t.Context(), config: Config{Files: Files{Changed: source.changed}, Log: slog.New(slog.DiscardHandler)}}
		counter, transport := &requestCounter{}, blockedTransport{make(chan struct{}), make(chan struct{})}
		client, err := rest.HTTPClientFor(counter.count(&rest.Config{Transport: transport}))
		if err != nil {
			t.Fatal(err)
		}
		built := 0
		run, err := reloading(env, []string{source.file}, counter, func(context.Context) (func(context.Context), error) {
			built++
			first := built == 1
			return func(ctx context.Context) {
				if !first {
					<-ctx.Done()
					return
				}
				for range 3 {
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
					if err != nil {
						t.Error(err)
						return
					}
					response, err := client.Do(request)
					if err != nil {
						t.Errorf("a request was interrupted: %v", err)
						return
					}
					_ = response.Body.Close() // it has none
				}
				<-ctx.Done()
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			run(ctx)
		}()
		<-transport.begun
		source.changeOther()
		synctest.Wait()
		if built != 1 {
			t.Error("a change of another file has rebuilt the controller")
		}
		source.change()
		for range 2 {
			time.Sleep(noRequestsFor * 3 / 2)
			transport.answer <- struct{}{}
			<-transport.begun
		}
		transport.answer <- struct{}{}
		time.Sleep(noRequestsFor + time.Second)
		synctest.Wait()
		if built != 2 {
			t.Errorf("it was built %d times", built)
		}
		cancel()
		<-ended
	})
}
