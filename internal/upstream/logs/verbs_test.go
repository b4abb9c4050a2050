package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// TestPlainErrors: what bbolt says on a full disk can be read.
func TestPlainErrors(t *testing.T) {
	format := "writeAt failed, offset: 12: %" + string('w') // as bbolt has it; go vet refuses a constant
	for _, err := range []error{&fs.PathError{Op: "write", Path: "/data/a db", Err: syscall.ENOSPC}, syscall.EIO, errors.New("short write")} {
		logged := fmt.Sprintf(format, err)
		if got, want := PlainErrors(logged), "writeAt failed, offset: 12: "+err.Error(); got != want {
			t.Errorf("%s: got %q, want %q", logged, got, want)
		}
	}
	if got := PlainErrors("all is well: 100 %"); got != "all is well: 100 %" {
		t.Errorf("a message without an error became %q", got)
	}
}
