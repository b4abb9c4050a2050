package progress

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// delay is how long a task takes before it is shown.
	delay = time.Second
	// interval is the time between two updates of the line.
	interval = 200 * time.Millisecond
	// clearLine returns to the beginning of the line and erases it.
	clearLine = "\r\x1b[K"
)

// Display shows a line on a terminal below what is written to it. It is safe for
// concurrent use.
type Display struct {
	out   io.Writer
	width func() int

	mu    sync.Mutex
	shown bool // the cursor is at the end of the line of progress
}

// New returns a display on a terminal. It calls width, which returns the number of
// columns, for each line.
func New(out io.Writer, width func() int) *Display { return &Display{out: out, width: width} }

// Write implements [io.Writer]: it writes whole lines above the line of progress.
func (d *Display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.erase(); err != nil {
		return 0, err
	}
	return d.out.Write(p)
}

// erase is called with mu held.
func (d *Display) erase() error {
	if !d.shown {
		return nil
	}
	d.shown = false
	_, err := io.WriteString(d.out, clearLine)
	return err
}

// show replaces the line.
func (d *Display) show(line string) {
	if width := d.width() - 1; width > 0 && len([]rune(line)) > width {
		line = string([]rune(line)[:width])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shown = true
	_, _ = io.WriteString(d.out, clearLine+line) // a failing terminal does not stop the task
}

func (d *Display) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.erase() // see show
}

type key struct{}

// With returns a context whose tasks are shown on the display.
func With(ctx context.Context, d *Display) context.Context {
	return context.WithValue(ctx, key{}, d)
}

// Track shows a task on the display of the context, if it has one, from a second after
// the call until stop is called. done returns what was done so far, as "3 of 10 objects",
// or "" if that is not known; it is called from another goroutine. A display shows one
// task at a time.
func Track(ctx context.Context, task string, done func() string) (stop func()) {
	d, ok := ctx.Value(key{}).(*Display)
	if !ok {
		return func() {}
	}
	began, ended := time.Now(), make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		defer d.clear()
		timer := time.NewTimer(delay)
		defer timer.Stop()
		for {
			select {
			case <-ended:
				return
			case <-timer.C:
			}
			line := task
			if text := done(); text != "" {
				line += ": " + text
			}
			d.show(fmt.Sprintf("%s, %s", line, time.Since(began).Truncate(time.Second)))
			timer.Reset(interval)
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		showing.Wait()
	})
}
