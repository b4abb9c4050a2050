package s3

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/iotest"
)

// TestResumed: an object is read whole over connections that are lost, and not for ever.
func TestResumed(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 100)
	lost := errors.New("the connection is lost")
	read := func(deliver int, later error) ([]byte, int, error) {
		opened := 0
		open := func(offset int64) (io.ReadCloser, error) {
			if opened++; opened > 1 && later != nil {
				return nil, later
			}
			part := content[offset:min(int(offset)+deliver, len(content))]
			ends := iotest.ErrReader(lost)
			if opened%2 == 0 || int(offset)+len(part) == len(content) {
				ends = bytes.NewReader(nil) // an orderly end, perhaps too early
			}
			return io.NopCloser(io.MultiReader(bytes.NewReader(part), ends)), nil
		}
		first, err := open(0)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(&resumed{ctx: t.Context(), open: open, from: first, size: int64(len(content))})
		return data, opened, err
	}
	if data, opened, err := read(300, nil); err != nil || !bytes.Equal(data, content) || opened != 4 {
		t.Errorf("%d bytes over %d connections, %v", len(data), opened, err)
	}
	if data, opened, err := read(0, nil); err == nil || opened != 1+maxResumptions {
		t.Errorf("an object that does not come: %d bytes over %d connections, %v", len(data), opened, err)
	}
	if data, _, err := read(300, fs.ErrNotExist); !errors.Is(err, fs.ErrNotExist) || len(data) != 300 {
		t.Errorf("an object that is removed meanwhile: %d bytes, %v", len(data), err)
	}
	if _, opened, err := read(300, errors.New("503")); !errors.Is(err, lost) || opened != 1+maxResumptions {
		t.Errorf("a server that fails: %d connections, %v", opened, err)
	}
}
