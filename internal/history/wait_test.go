package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// TestAwait: the newest chain must reach the revision of the server. Another chain may have it,
// that of a server whose data was replaced.
func TestAwait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add := func(chain int, kind string, name fmt.Stringer) {
		path := filepath.Join(dir, "chains", fmt.Sprintf("%08d", chain), kind, name.String())
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Error(err)
		}
	}
	base := func(revision int64) journal.BaseName {
		return journal.BaseName{Revision: revision, Sequence: 1, Time: time.Unix(1, 0), Extension: ".tar.gz"}
	}
	segment := func(sequence int, first, last int64) journal.SegmentName {
		return journal.SegmentName{Sequence: sequence, First: first, Last: last, FirstTime: time.Unix(1, 0), LastTime: time.Unix(2, 0)}
	}
	add(1, "bases", base(1000))
	add(2, "segments", segment(1, 6, 7))
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	j := New(journal.Reader{Store: journal.NewDirectory(dir)}, "registry", say)
	at := func(revision int64, err error) func(context.Context) (int64, error) {
		return func(context.Context) (int64, error) { return revision, err }
	}
	synctest.Test(t, func(t *testing.T) {
		if err := j.Await(t.Context(), at(7, nil), time.Second); err == nil || !strings.Contains(err.Error(), "ends at revision 0, ") {
			t.Errorf("a chain without a base: %v", err)
		}
		add(2, "bases", base(5))
		if err := j.Await(t.Context(), at(7, nil), time.Second); err != nil || len(said) > 0 {
			t.Errorf("a chain with the revision: %v, it says %q", err, said)
		}
		time.AfterFunc(5*time.Second, func() { add(2, "segments", segment(2, 8, 9)) })
		began := time.Now()
		if err := j.Await(t.Context(), at(8, nil), time.Minute); err != nil || time.Since(began) < 5*time.Second ||
			strings.Join(said, "\n") != "waiting up to 1m0s for the journal, which ends at revision 7, to reach revision 8 of the server" {
			t.Errorf("after %s: %v, it says %q", time.Since(began), err, said)
		}
		if err := j.Await(t.Context(), at(10, nil), time.Minute); err == nil || !strings.Contains(err.Error(), "ends at revision 9, and the server is at 10") {
			t.Errorf("a journal that lags behind: %v", err)
		}
		said = nil
		if err := j.Await(t.Context(), at(0, errors.New("forbidden")), time.Minute); err != nil || len(said) != 1 || !strings.Contains(said[0], "forbidden") {
			t.Errorf("without the server's revision: %v, it says %q", err, said)
		}
	})
}
