package journal

import (
	"errors"
	"os"
	"testing"
)

// TestVerification: the daily verification ends the chain if the destination does not have
// what it has confirmed, and does not while the destination cannot be read.
func TestVerification(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(store *Directory, segments []string) error
		want  string
		ends  bool
	}{
		"nothing is wrong": {func(*Directory, []string) error { return nil }, "", false},
		"a segment is gone": {func(s *Directory, segments []string) error { return os.Remove(s.file(segments[0])) },
			"are missing", true},
		"the newest segment is gone": {func(s *Directory, segments []string) error { return os.Remove(s.file(segments[len(segments)-1])) },
			"are missing", true},
		"a segment is cut": {func(s *Directory, segments []string) error { return os.Truncate(s.file(segments[0]), 100) },
			"the journal is damaged", true},
		"the disk is not mounted": {func(s *Directory, _ []string) error { return os.Rename(s.path, s.path+".disk") },
			"mount its disk", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, f := begun(t)
			f.caughtUp()
			for range 3 {
				f.history(1)
				f.caughtUp()
			}
			f.stopWriter()
			s, err := f.writer.resume(t.Context())
			if err == nil {
				err = c.spoil(store, names(t, store, chainName(1, segmentsDir)))
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.verify(t.Context(), s.since.sequence)
			if c.want != "" {
				wants(t, err, c.want)
			} else if err != nil {
				t.Error(err)
			}
			if ended := (*endError)(nil); errors.As(err, &ended) != c.ends {
				t.Errorf("the chain ends: %t, want %t, with %v", !c.ends, c.ends, err)
			}
		})
	}
}
