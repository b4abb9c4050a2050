package progress

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// terminal is a buffer that the test may read while the display writes.
type terminal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// screen returns what a terminal shows after the text: its lines.
func screen(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if at := strings.LastIndex(line, clearLine); at >= 0 {
			lines[i] = line[at+len(clearLine):]
		}
	}
	return lines
}

// TestTrack: a task is shown after a second, below the log, and its line goes when it ends.
func TestTrack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &terminal{}
		d := New(out, func() int { return 40 })
		var objects atomic.Int64
		stop := Track(With(t.Context(), d), "rotating", func() string { return fmt.Sprintf("%d objects", objects.Load()) })
		time.Sleep(delay - time.Millisecond)
		synctest.Wait()
		if out.String() != "" {
			t.Errorf("shown too early: %q", out)
		}
		objects.Store(7)
		time.Sleep(delay)
		synctest.Wait()
		if got := screen(out.String()); len(got) != 1 || got[0] != "rotating: 7 objects, 1s" {
			t.Errorf("after two seconds: %q", got)
		}
		fmt.Fprintln(d, "a line of the log")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := screen(out.String()); len(got) != 2 || got[0] != "a line of the log" || got[1] != "rotating: 7 objects, 2s" {
			t.Errorf("with a line of the log: %q", got)
		}
		stop()
		stop()
		if got := screen(out.String()); len(got) != 2 || got[1] != "" {
			t.Errorf("at the end: %q", got)
		}
	})
}

// TestLongLineIsCut: a line that wraps could not be erased.
func TestLongLineIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &terminal{}
		stop := Track(With(t.Context(), New(out, func() int { return 10 })), strings.Repeat("ä", 50), func() string { return "" })
		time.Sleep(2 * delay)
		synctest.Wait()
		if got := screen(out.String()); got[0] != strings.Repeat("ä", 9) {
			t.Errorf("got %q", got)
		}
		stop()
	})
}

// TestNoDisplay: without a terminal nothing is shown, and done is not called.
func TestNoDisplay(t *testing.T) {
	stop := Track(context.Background(), "x", func() string { panic("done was called") })
	stop()
}

func TestCounter(t *testing.T) {
	counter, out := &Counter{}, &bytes.Buffer{}
	w := counter.Writer(out)
	fmt.Fprint(w, "abc")
	fmt.Fprint(w, "de")
	if counter.Bytes() != 5 || out.String() != "abcde" {
		t.Errorf("%d bytes, %q", counter.Bytes(), out)
	}
}
