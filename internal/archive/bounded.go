package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// operationLimit bounds an operation of the destination, and the time in which one
	// that reads or writes content makes no progress.
	operationLimit = time.Minute
	// listLimit bounds a listing: a week has 600,000 segments.
	listLimit = 10 * time.Minute
	// leastRate, in bytes per second, is that of a destination that writes what it has
	// received to its disk.
	leastRate = 1 << 20
	// cancelGrace is how long an operation that was canceled may take to return.
	cancelGrace = 100 * time.Millisecond
	// maxCalls bounds the concurrent operations, and so the goroutines and files of a
	// destination that hangs.
	maxCalls = 8
)

// bounded is a store whose operations return when their context ends or when they make no
// progress. Without it, those on a network file system (NFS) return only when its server
// is back. Until an abandoned operation has returned, all others fail.
type bounded struct {
	Store

	limit time.Duration // operationLimit
	calls chan struct{} // has a token for each operation that has not returned

	mu        sync.Mutex
	abandoned int       // operations that have not returned
	operation string    // the last one of them
	since     time.Time // when it began
}

func newBounded(store Store) *bounded {
	return &bounded{Store: store, limit: operationLimit, calls: make(chan struct{}, maxCalls)}
}

// do calls run in a goroutine. It returns when run does, ctx has ended, or alive has not
// been called for the limit.
func (b *bounded) do(ctx context.Context, limit time.Duration, operation string, run func(ctx context.Context, alive func()) error) error {
	if err := b.errIfHanging(); err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%s does not answer: %s took more than %s", b.Store, operation, limit)) })
	defer timer.Stop()
	select {
	case b.calls <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ended := make(chan error, 1)
	go func() {
		defer func() { <-b.calls }()
		ended <- run(ctx, func() { timer.Reset(limit) })
	}()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, ErrExists) && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, ErrExists) {
			return err
		}
	case <-time.After(cancelGrace):
		b.abandon(operation, began, ended)
	}
	return context.Cause(ctx)
}

// errIfHanging returns an error while an abandoned operation has not returned.
func (b *bounded) errIfHanging() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.abandoned == 0 {
		return nil
	}
	return fmt.Errorf("%s does not answer: %s has not returned since %s", b.Store, b.operation, b.since.Local().Format(time.DateTime))
}

// abandon waits in the background until the operation returns. Nothing can end the
// goroutine before: a system call does not heed a context.
func (b *bounded) abandon(operation string, began time.Time, ended <-chan error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.operation, b.since = operation, began
	b.abandoned++
	go func() {
		<-ended
		b.mu.Lock()
		defer b.mu.Unlock()
		b.abandoned--
	}()
}

// release calls free. While the store hangs, it does not wait for free to return.
func (b *bounded) release(operation string, free func() error) error {
	began, limit := time.Now(), b.limit
	if b.errIfHanging() != nil {
		limit = cancelGrace
	}
	ended := make(chan error, 1)
	go func() { ended <- free() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		b.abandon(operation, began, ended)
		return nil
	}
}

// Create implements [Store].
func (b *bounded) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	limit := b.limit + time.Duration(size/leastRate)*time.Second
	return b.do(ctx, limit, "writing "+name, func(ctx context.Context, alive func()) error {
		return b.Store.Create(ctx, name, &progressReader{body, alive}, size)
	})
}

// progressReader reports each read.
type progressReader struct {
	io.ReadSeeker
	alive func()
}

// Read implements io.Reader.
func (o *progressReader) Read(p []byte) (int, error) {
	o.alive()
	return o.ReadSeeker.Read(p)
}

// ReadAt implements io.ReaderAt: without it, the client of S3 would have parts in memory.
func (o *progressReader) ReadAt(p []byte, offset int64) (int, error) {
	o.alive()
	at, ok := o.ReadSeeker.(io.ReaderAt)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return at.ReadAt(p, offset)
}

// Open implements [Store].
func (b *bounded) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	living, cancel := context.WithCancel(ctx) // until the content is closed
	body := &boundedBody{store: b, ctx: ctx, cancel: cancel, operation: "reading " + name}
	err := b.do(ctx, b.limit, body.operation, func(ctx context.Context, _ func()) error {
		opening := context.AfterFunc(ctx, cancel)
		opened, err := b.Store.Open(living, name)
		if err != nil {
			return err
		}
		if !opening() {
			return errors.Join(context.Cause(ctx), opened.Close())
		}
		body.from = opened
		return nil
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return body, nil
}

// boundedBody is the content of an object.
type boundedBody struct {
	store     *bounded
	ctx       context.Context
	cancel    func()
	operation string
	from      io.ReadCloser
	buffer    []byte
	err       error // of an operation that may not have returned

	mu              sync.Mutex
	reading, closed bool
}

// Read implements io.Reader.
func (r *boundedBody) Read(p []byte) (n int, err error) {
	if r.err != nil {
		return 0, r.err
	}
	if len(r.buffer) < len(p) {
		r.buffer = make([]byte, len(p))
	}
	buffer := r.buffer[:len(p)]
	type result struct {
		n   int
		err error
	}
	read := make(chan result, 1)
	r.err = r.store.do(r.ctx, r.store.limit, r.operation, func(context.Context, func()) error {
		r.startRead()
		n, err := r.from.Read(buffer)
		read <- result{n, err}
		return r.endRead()
	})
	if r.err != nil {
		return 0, r.err
	}
	got := <-read
	copy(p, buffer[:got.n])
	return got.n, got.err
}

// startRead records a read.
func (r *boundedBody) startRead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = true
}

// endRead records the end of a read, and closes the content if that was left to it.
func (r *boundedBody) endRead() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading = false; r.closed {
		return r.from.Close()
	}
	return nil
}

// Close implements io.Closer. The content is closed when a read that was abandoned has
// returned.
func (r *boundedBody) Close() error {
	defer r.cancel()
	r.mu.Lock()
	wasClosed := r.closed
	r.closed = true
	reading := r.reading
	r.mu.Unlock()
	if reading || wasClosed {
		return nil
	}
	return r.store.release(r.operation, r.from.Close)
}

// List implements [Store].
func (b *bounded) List(ctx context.Context, prefix, after string) (objects []Object, err error) {
	return listed(b, ctx, listLimit, prefix, func(ctx context.Context) ([]Object, error) { return b.Store.List(ctx, prefix, after) })
}

// Folders implements [Store].
func (b *bounded) Folders(ctx context.Context, prefix string) ([]string, error) {
	return listed(b, ctx, b.limit, prefix, func(ctx context.Context) ([]string, error) { return b.Store.Folders(ctx, prefix) })
}

// listed calls list in its time.
func listed[T any](b *bounded, ctx context.Context, limit time.Duration, prefix string, list func(context.Context) ([]T, error)) ([]T, error) {
	result := make(chan []T, 1)
	err := b.do(ctx, limit, "listing "+prefix, func(ctx context.Context, _ func()) error {
		found, err := list(ctx)
		result <- found
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-result, nil
}

// Remove implements [Store].
func (b *bounded) Remove(ctx context.Context, name string) error {
	return b.do(ctx, b.limit, "removing "+name, func(ctx context.Context, _ func()) error { return b.Store.Remove(ctx, name) })
}
