package controllers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
)

// changes is a source of changes that a test makes.
type changes struct {
	mu   sync.Mutex
	next chan struct{}
}

func (c *changes) changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

func (c *changes) change() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// TestReloading: after a change the new controller replaces the old one; if it cannot be
// built, the old one continues.
func TestReloading(t *testing.T) {
	source := &changes{next: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	env := &environment{runCtx: ctx, config: Config{Files: Files{Changed: source.changed}, Log: slog.New(slog.DiscardHandler)}}
	built, events := 0, make(chan int, 10)
	tried := make(chan int, 10)
	run, err := reloading(env, func(context.Context) (func(context.Context), error) {
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
		source := &changes{next: make(chan struct{})}
		env := &environment{runCtx: t.Context(), config: Config{Files: Files{Changed: source.changed}, Log: slog.New(slog.DiscardHandler)}}
		built, running := 0, make(chan int, 1)
		run, err := reloading(env, func(context.Context) (func(context.Context), error) {
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
