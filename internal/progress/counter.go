package progress

import (
	"io"
	"sync/atomic"
)

// Counter counts the bytes that are written. It is safe for concurrent use.
type Counter struct{ n atomic.Int64 }

// Bytes returns how many were written so far.
func (c *Counter) Bytes() int64 { return c.n.Load() }

// Writer returns a writer that counts and writes to w.
func (c *Counter) Writer(w io.Writer) io.Writer { return counted{c, w} }

type counted struct {
	counter *Counter
	io.Writer
}

// Write implements [io.Writer].
func (c counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.counter.n.Add(int64(n))
	return n, err
}
