package journal

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// TestMissingEnd: a restore and the list notice that the newest segment, or the statement of
// the chain's end, is missing or forged.
func TestMissingEnd(t *testing.T) {
	t.Parallel()
	dir, f := made(t)
	last := revision(t, f)
	f.stopWriter()
	for name, c := range map[string]struct {
		spoil func(store *Directory, segments []string, end string) error
		want  string
	}{
		"nothing is wrong": {func(*Directory, []string, string) error { return nil }, ""},
		"the newest segment is missing": {func(s *Directory, segments []string, _ string) error {
			return os.Remove(s.file(segments[len(segments)-1]))
		}, "the chain was written until revision"},
		"all segments are missing": {func(s *Directory, segments []string, _ string) error {
			return os.RemoveAll(s.file(chainName(1, segmentsDir)))
		}, "segments 1 to "},
		"the end is missing": {func(s *Directory, _ []string, end string) error { return os.Remove(s.file(end)) }, "the end of chain 1 is missing"},
		"the end is forged": {func(s *Directory, segments []string, name string) error {
			data, err := os.ReadFile(s.file(name))
			if err != nil {
				return err
			}
			var e end
			if err := json.Unmarshal(data, &e); err != nil {
				return err
			}
			e.Sequence--
			forged, err := json.Marshal(e)
			return errors.Join(err, os.Remove(s.file(segments[len(segments)-1])), os.WriteFile(s.file(name), forged, 0o600))
		}, "was not written by the server of the chain"},
	} {
		t.Run(name, func(t *testing.T) {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			store := NewDirectory(copied)
			ends := names(t, store, chainName(1, endsDir))
			if len(ends) != 1 {
				t.Fatalf("ends: %q", ends)
			}
			if err := c.spoil(store, names(t, store, chainName(1, segmentsDir)), ends[0]); err != nil {
				t.Fatal(err)
			}
			_, outcome, err := restore(t, store, Target{})
			if err != nil {
				t.Fatal(err)
			}
			windows, err := Windows(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}
			listed := len(windows[0].Gaps) > 0 && strings.Contains(windows[0].Gaps[0], "the newest ones, are missing")
			if c.want == "" {
				if outcome.Broken != nil || outcome.Revision != last || listed {
					t.Errorf("%+v, %v, %q", outcome, outcome.Broken, windows[0].Gaps)
				}
				return
			}
			if outcome.Broken == nil || !strings.Contains(outcome.Broken.Error(), c.want) {
				t.Errorf("%+v: %v", outcome, outcome.Broken)
			}
			if strings.Contains(name, "segment") && !listed {
				t.Errorf("the list has %q", windows[0].Gaps)
			}
		})
	}
}
