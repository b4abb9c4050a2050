package journal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// apply makes the changes of a revision.
func (c content) apply(r Revision) {
	for _, change := range r.Changes {
		if change.Deleted {
			delete(c, string(change.Key))
		} else {
			c[string(change.Key)] = fmt.Sprintf("%s %d", change.Value, r.Number)
		}
	}
}

// readSpan returns the states in a span by revision, from that of the base on.
func readSpan(t *testing.T, store Store, span Span) (map[int64]content, error) {
	t.Helper()
	state, states := content{}, map[int64]content{}
	reader := &Reader{Store: store}
	err := reader.Span(t.Context(), span, Visitor{
		File:   func(File) error { return nil },
		Stored: func(r Revision) error { state.apply(r); return nil },
		Based:  func() error { states[span.Base.Revision] = maps.Clone(state); return nil },
		Changed: func(r Revision) error {
			state.apply(r)
			states[r.Number] = maps.Clone(state)
			return nil
		},
	})
	return states, err
}

// TestSpans: the bases and changes of the spans are the whole history, each span up
// to the next base.
func TestSpans(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.caughtUp()
	first := revision(t, f) + 1
	f.history(5)
	f.caughtUp()
	f.stopWriter()
	f.makeBase()
	f.startWriter()
	for range 3 {
		f.history(1)
		f.caughtUp()
	}
	last := revision(t, f)

	spans, problems, err := Spans(t.Context(), store)
	if err != nil || len(problems) > 0 || len(spans) != 2 || spans[0].Until != spans[1].Base.Revision || spans[1].Until != 0 {
		t.Fatalf("the spans are %+v, %q, %v", spans, problems, err)
	}
	states := map[int64]content{}
	for _, span := range spans {
		read, err := readSpan(t, store, span)
		if err != nil {
			t.Fatal(err)
		}
		for number, state := range read {
			if span.Until != 0 && number > span.Until {
				t.Errorf("the span until %d has revision %d", span.Until, number)
			}
			states[number] = state
		}
	}
	for number := first; number <= last; number++ {
		if want := f.state(number); !maps.Equal(states[number], want) {
			t.Errorf("revision %d is %v, want %v", number, states[number], want)
		}
	}

	// What is damaged is named, and what is before it is read.
	segments, err := spans[1].Chain.Segments(t.Context(), store, spans[1].Base.Sequence)
	if err != nil || len(segments) < 2 {
		t.Fatalf("the segments are %v, %v", segments, err)
	}
	damage(t, store, segments[1].Object.Name)
	broken := (*BrokenError)(nil)
	if read, err := readSpan(t, store, spans[1]); !errors.As(err, &broken) || broken.Base || broken.Last < segments[0].First || len(read) < 2 {
		t.Errorf("with a damaged segment: %d states, %v", len(read), err)
	}
	damage(t, store, spans[0].Base.Object.Name)
	if _, err := readSpan(t, store, spans[0]); !errors.As(err, &broken) || !broken.Base || !strings.Contains(err.Error(), spans[0].Base.Object.Name) {
		t.Errorf("with a damaged base: %v", err)
	}
	if _, _, err := Spans(t.Context(), NewDirectory(t.TempDir())); err == nil {
		t.Error("an empty directory has a journal")
	}
}

// damage flips a byte in the middle of an object.
func damage(t *testing.T, store *Directory, name string) {
	t.Helper()
	path := filepath.Join(strings.TrimSuffix(store.String(), "/"), filepath.FromSlash(name))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := errors.Join(os.Remove(path), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}
