package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hanging is a store whose operations return when it is released, whatever their
// context says, as those of a file system on a server that is away.
type hanging struct {
	Store
	hangs   atomic.Bool
	release chan struct{}
}

func (h *hanging) wait() {
	if h.hangs.Load() {
		<-h.release
	}
}

func (h *hanging) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	h.wait()
	return h.Store.Create(ctx, name, body, size)
}

func (h *hanging) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	h.wait()
	body, err := h.Store.Open(ctx, name)
	return &hangingBody{h, body}, err
}

type hangingBody struct {
	*hanging
	io.ReadCloser
}

func (b *hangingBody) Read(p []byte) (int, error) {
	b.wait()
	return b.ReadCloser.Read(p)
}

func (h *hanging) List(ctx context.Context, prefix, after string) ([]Object, error) {
	h.wait()
	return h.Store.List(ctx, prefix, after)
}

func (h *hanging) Folders(ctx context.Context, prefix string) ([]string, error) {
	h.wait()
	return h.Store.Folders(ctx, prefix)
}

func (h *hanging) Remove(ctx context.Context, name string) error {
	h.wait()
	return h.Store.Remove(ctx, name)
}

// TestHangingOperations: each operation of a store that hangs ends with an error, the
// next one ends at once, and all work when the store answers again.
func TestHangingOperations(t *testing.T) {
	t.Parallel()
	h := &hanging{Store: NewDirectory(t.TempDir())}
	b := newBounded(h)
	create := func(name string) error { return b.Create(t.Context(), name, strings.NewReader("x"), 1) }
	if err := create("a/b/c"); err != nil {
		t.Fatal(err)
	}
	body, err := b.Open(t.Context(), "a/b/c")
	if err != nil {
		t.Fatal(err)
	}
	for what, operation := range map[string]func() error{
		"create":  func() error { return create("a/b/d") },
		"open":    func() error { _, err := b.Open(t.Context(), "a/b/c"); return err },
		"read":    func() error { _, err := body.Read(make([]byte, 1)); return err },
		"folders": func() error { _, err := b.Folders(t.Context(), "a/"); return err },
		"remove":  func() error { return b.Remove(t.Context(), "a/b/none") },
	} {
		h.release = make(chan struct{})
		h.hangs.Store(true)
		b.limit = 20 * time.Millisecond
		wants(t, operation(), "does not answer", "took more than 20ms")
		wants(t, create("a/b/e"), "does not answer", "has not returned since")
		h.hangs.Store(false)
		close(h.release)
		b.limit = operationLimit
		await(t, what+" has returned", func() error {
			err := create("a/b/" + what)
			if errors.Is(err, ErrExists) {
				return nil
			}
			return err
		})
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	if data, err := readAll(t.Context(), b, "a/b/c", 10); err != nil || string(data) != "x" {
		t.Errorf("the content is %q, %v", data, err)
	}
	if objects, err := b.List(t.Context(), "a/", ""); err != nil || len(objects) != 6 { // c and one for each operation; what was canceled is not stored
		t.Errorf("objects: %v, %v", objects, err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Create(canceled, "a/b/f", bytes.NewReader(nil), 0); !errors.Is(err, context.Canceled) && err != nil {
		t.Errorf("after the context has ended: %v", err)
	}
}

// counting counts the operations that have not returned, and the contents that are open.
type counting struct {
	hanging
	running, open atomic.Int64
}

func (c *counting) Remove(ctx context.Context, name string) error {
	c.running.Add(1)
	defer c.running.Add(-1)
	return c.hanging.Remove(ctx, name)
}

func (c *counting) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	body, err := c.hanging.Open(ctx, name)
	if err == nil {
		c.open.Add(1)
		body = &countedBody{body, c}
	}
	return body, err
}

type countedBody struct {
	io.ReadCloser
	of *counting
}

func (b *countedBody) Close() error {
	b.of.open.Add(-1)
	return b.ReadCloser.Close()
}

// TestAbandonedOperations: their number is bounded.
func TestAbandonedOperations(t *testing.T) {
	t.Parallel()
	c := &counting{hanging: hanging{Store: NewDirectory(t.TempDir()), release: make(chan struct{})}}
	defer close(c.release)
	c.hangs.Store(true)
	b := newBounded(c)
	b.limit = 100 * time.Millisecond
	var calling sync.WaitGroup
	for range 10 * maxCalls {
		calling.Go(func() {
			if b.Remove(t.Context(), "a") == nil {
				t.Error("an operation of a store that hangs has succeeded")
			}
		})
	}
	calling.Wait()
	if n := c.running.Load(); n == 0 || n > maxCalls {
		t.Errorf("%d operations have not returned, want 1 to %d", n, maxCalls)
	}
}

// TestAbandonedContents are closed when the store answers again.
func TestAbandonedContents(t *testing.T) {
	t.Parallel()
	c := &counting{hanging: hanging{Store: NewDirectory(t.TempDir()), release: make(chan struct{})}}
	b := newBounded(c)
	if err := b.Create(t.Context(), "a", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	var bodies []io.ReadCloser
	for range 2 {
		body, err := b.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	b.limit = 20 * time.Millisecond
	c.hangs.Store(true)
	_, err := bodies[0].Read(make([]byte, 1))
	wants(t, err, "does not answer")
	for _, body := range bodies {
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
	close(c.release)
	await(t, "the contents are closed", func() error {
		if n := c.open.Load(); n != 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
}

// TestHangingDestination: changes wait in the spool, the account has the lag, the writer
// stops, and catches up when the destination answers again.
func TestHangingDestination(t *testing.T) {
	t.Parallel()
	h := &hanging{Store: NewDirectory(t.TempDir()), release: make(chan struct{})}
	f := start(t, h, t.TempDir(), nil)
	f.caughtUp()
	h.hangs.Store(true)
	f.history(3)
	await(t, "the account has the lag", func() error {
		if a := f.writer.Account(t.Context()); a.SpoolBytes == 0 || a.LagRevisions == 0 || a.LagSeconds == 0 {
			return errors.New("no lag")
		}
		return nil
	})
	f.writer.stopGrace = stopGrace // in which it ships nothing
	f.stopWriter()
	f.history(3)
	f.startWriter()
	f.history(3)
	h.hangs.Store(false)
	close(h.release)
	f.caughtUp()
	restoresAll(t, f, h)
	if chains := claims(t, h); len(chains) != 1 {
		t.Errorf("chains: %+v", chains)
	}
}
