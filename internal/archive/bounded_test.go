package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
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
