package journal

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
)

// slowOpen is a store whose reads end a while after their context.
type slowOpen struct {
	Store
	began, ended chan struct{}
}

func (s *slowOpen) Open(ctx context.Context, _ string) (io.ReadCloser, error) {
	close(s.began)
	<-ctx.Done()
	s.ended <- struct{}{}
	return nil, ctx.Err()
}

// TestReadsEndWithTheirReader: a reading that ends early leaves no goroutine behind.
func TestReadsEndWithTheirReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowOpen{began: make(chan struct{}), ended: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			reader := &chainReader{plan: &Plan{Store: store, Chain: &Chain{}}, next: 1}
			if err := reader.each(ctx, []Segment{{}}, nil); err == nil {
				t.Error("a reading that was cancelled has no error")
			}
		}()
		<-store.began
		cancel()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("it has returned before its goroutine")
		default:
		}
		<-store.ended
		<-returned
	})
}
