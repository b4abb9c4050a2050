package backup

import (
	"errors"
	"syscall"
	"testing"
)

// fullWriter is a file on a full disk.
type fullWriter struct{}

// Write implements io.Writer.
func (fullWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFullDestination: the archive of a full disk is not called damaged.
func TestFullDestination(t *testing.T) {
	_, err := Copy(t.Context(), fullWriter{}, Encryption{}, produce(server(t), Options{Reason: ReasonManual}))
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrDamaged) {
		t.Errorf("it says %v", err)
	}
}
