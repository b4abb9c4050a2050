package journal

import (
	"context"
	"errors"
	"io"
)

// maxResumptions bounds the connections in a row that deliver nothing of an object.
const maxResumptions = 5

// resumed reads an object over several connections: when one is lost, the next one
// continues. A restore reads thousands of segments, and bases of gigabytes.
type resumed struct {
	ctx context.Context
	// open opens the object from an offset on.
	open     func(offset int64) (io.ReadCloser, error)
	from     io.ReadCloser
	at, size int64
	failures int // since the last byte
}

// Read implements io.Reader.
func (r *resumed) Read(p []byte) (int, error) {
	for {
		n, err := r.from.Read(p)
		if n > 0 {
			r.at += int64(n)
			r.failures = 0
			return n, nil // the next call has the error
		}
		if err == nil || r.at == r.size && errors.Is(err, io.EOF) {
			return 0, err
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err := r.resume(err); err != nil {
			return 0, err
		}
	}
}

// resume opens the object where the connection was lost.
func (r *resumed) resume(lost error) error {
	for {
		if r.failures++; r.failures > maxResumptions || r.ctx.Err() != nil {
			return lost
		}
		from, err := r.open(r.at)
		if err == nil {
			_ = r.from.Close() // it has failed
			r.from = from
			return nil
		}
		if isMissing(err) {
			return err
		}
	}
}

// Close implements io.Closer.
func (r *resumed) Close() error { return r.from.Close() }
