package journal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

func wants(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q", err, part)
		}
	}
}

// made is a journal of one chain with several segments.
func made(t *testing.T) (string, *fixture) {
	t.Helper()
	dir := t.TempDir()
	f := start(t, NewDirectory(dir), t.TempDir(), nil)
	f.caughtUp()
	for range 4 {
		f.history(1)
		f.caughtUp()
	}
	return dir, f
}

// TestBrokenSegments: the error names the broken segment. A restore of the newest state
// reaches the revision before it; a restore of a later revision fails.
func TestBrokenSegments(t *testing.T) {
	t.Parallel()
	dir, f := made(t)
	otherDir, _ := made(t)
	segments := names(t, NewDirectory(dir), chainName(1, segmentsDir))
	others := names(t, NewDirectory(otherDir), chainName(1, segmentsDir))
	last := revision(t, f)
	damaged := segments[2]
	good, err := parseSegmentName(filepath.Base(segments[1]))
	if err != nil {
		t.Fatal(err)
	}
	read := func(dir, name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, test := range map[string]struct {
		content func() []byte // nil removes the segment
		want    string
	}{
		"a flipped byte":     {func() []byte { d := read(dir, damaged); d[len(d)/2] ^= 1; return d }, "SHA-256"},
		"cut short":          {func() []byte { d := read(dir, damaged); return d[:len(d)/2] }, "SHA-256"},
		"empty":              {func() []byte { return nil }, "0 bytes"},
		"missing":            {nil, "are missing"},
		"of another server":  {func() []byte { return read(otherDir, others[2]) }, "of another server"},
		"of another place":   {func() []byte { return read(dir, segments[1]) }, "its content is that of"},
		"not even a segment": {func() []byte { return []byte(strings.Repeat("x", 1000)) }, "SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := t.TempDir()
			if err := os.CopyFS(broken, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(broken, filepath.FromSlash(damaged))
			err := os.Remove(path)
			if test.content != nil {
				err = os.WriteFile(path, test.content(), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			store := NewDirectory(broken)
			got, outcome, err := restore(t, store, Target{})
			if err != nil || outcome.Broken == nil || outcome.Revision != good.Last || !maps.Equal(got, f.state(good.Last)) {
				t.Fatalf("restored %+v, %v, want what is before the damage, revision %d", outcome, err, good.Last)
			}
			wants(t, outcome.Broken, test.want)
			if test.content != nil {
				wants(t, outcome.Broken, damaged)
			}
			_, _, err = restore(t, store, Target{Revision: last})
			wants(t, err, test.want, "--revision")
			refusesWhole(t, store, test.want)
			if _, outcome, err := restore(t, store, Target{Revision: good.Last}); err != nil || outcome.Revision != good.Last {
				t.Errorf("what is before the damage: %+v, %v", outcome, err)
			}
		})
	}
}

// refusesWhole fails the test unless a restore of the whole journal is refused with the reason, and leaves nothing.
func refusesWhole(t *testing.T, store Store, reason string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	_, outcome, err := Restore(t.Context(), RestoreConfig{
		Into:  backup.RestoreConfig{DataDir: dir, Stamp: datadir.CurrentStamp()},
		Store: store, Whole: true, Prefix: "/registry", Say: t.Logf, Log: zap.NewNop(),
	})
	wants(t, err, reason)
	if broken := (*BrokenError)(nil); errors.As(err, &broken) {
		wants(t, err, fmt.Sprintf("--revision %d", broken.Last))
	} else {
		t.Errorf("the whole: %+v, %v", outcome, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the refused restore has left %s (%v)", dir, err)
	}
}

// TestBrokenBase: the base before is used; without one, the restore fails.
func TestBrokenBase(t *testing.T) {
	t.Parallel()
	dir, f := made(t)
	store := NewDirectory(dir)
	f.makeBase()
	bases := names(t, store, chainName(1, basesDir))
	if len(bases) != 2 {
		t.Fatalf("bases: %q", bases)
	}
	for i := len(bases) - 1; i >= 0; i-- {
		path := filepath.Join(dir, filepath.FromSlash(bases[i]))
		data, err := os.ReadFile(path)
		if err == nil {
			data[len(data)/2] ^= 1
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := restore(t, store, Target{})
		if i > 0 && (err != nil || !maps.Equal(got, f.state(revision(t, f)))) {
			t.Errorf("with the first base: %v", err)
		} else if i == 0 {
			wants(t, err, bases[0], "damaged")
		}
	}
}

// TestRestorableRanges: the list has the missing parts.
func TestRestorableRanges(t *testing.T) {
	t.Parallel()
	dir, f := made(t)
	segments := names(t, NewDirectory(dir), chainName(1, segmentsDir))
	windows, err := Windows(t.Context(), NewDirectory(dir))
	if err != nil || len(windows) != 1 || windows[0].LastRevision != revision(t, f) || len(windows[0].Gaps) > 0 {
		t.Errorf("%+v, %v", windows, err)
	}
	if err := os.Remove(filepath.Join(dir, filepath.FromSlash(segments[1]))); err != nil {
		t.Fatal(err)
	}
	windows, err = Windows(t.Context(), NewDirectory(dir))
	if err != nil || len(windows) != 1 || len(windows[0].Gaps) != 1 {
		t.Fatalf("%+v, %v", windows, err)
	}
	wants(t, errors.New(windows[0].Gaps[0]), "segments 2 to 2 are missing")
	if windows, err := Windows(t.Context(), NewDirectory(t.TempDir())); err != nil || len(windows) != 0 {
		t.Errorf("an empty directory: %v, %v", windows, err)
	}
	_, err = NewPlan(t.Context(), NewDirectory(filepath.Join(dir, "nowhere")), Target{})
	wants(t, err, "nowhere has no journal")
}

// TestForkedJournal: a server that wrote on after another one was restored from its journal. The list
// says which changes the newest chain lacks, and the last revision that restores them.
func TestForkedJournal(t *testing.T) {
	t.Parallel()
	at := time.Now()
	first := Window{Chain: 1, HasBase: true, To: at, LastRevision: 22}
	second := Window{Chain: 2, HasBase: true, From: at.Add(-4 * time.Second), FirstRevision: 1_700_000_000_000}
	wants(t, errors.New(second.gapAfter(&first)), "chain 1 has changes until", "which chain 2, begun at", "--revision 22 restores them")
	second.From = at.Add(time.Second)
	wants(t, errors.New(second.gapAfter(&first)), "no change is recorded between")
}

// twoChains returns a store with two chains, and the last revision of the first one.
func twoChains(t *testing.T) (store *Directory, last int64) {
	t.Helper()
	dir, f := made(t)
	last = revision(t, f)
	f.stopWriter()
	f.history(1)
	f.compact(revision(t, f))
	f.startWriter()
	f.caughtUp()
	f.history(1)
	f.caughtUp()
	f.stopWriter()
	return NewDirectory(dir), last
}

// TestNewestChainWithoutBase: a restore says that it leaves the chain out.
func TestNewestChainWithoutBase(t *testing.T) {
	t.Parallel()
	store, last := twoChains(t)
	if err := os.RemoveAll(store.file(chainName(2, basesDir))); err != nil {
		t.Fatal(err)
	}
	for _, target := range []Target{{}, {At: time.Now()}} {
		_, outcome, err := restore(t, store, target)
		if err != nil || outcome.Broken == nil || outcome.Revision != last {
			t.Fatalf("restored %+v, %v", outcome, err)
		}
		wants(t, outcome.Broken, "chain 2, which began at", "has no base")
	}
	if _, outcome, err := restore(t, store, Target{Revision: last}); err != nil || outcome.Broken != nil {
		t.Errorf("revision %d before chain 2: %+v, %v", last, outcome, err)
	}
}

// TestMomentBeforeTheFirstBase: a restore of a moment at which a chain has no base yet says that it
// leaves the chain out, and what of it can be restored.
func TestMomentBeforeTheFirstBase(t *testing.T) {
	t.Parallel()
	store, last := twoChains(t)
	chain := claims(t, store)[1]
	target, said := Target{At: chain.Claim.Created}, ""
	_, outcome, err := Restore(t.Context(), RestoreConfig{
		Into:  backup.RestoreConfig{DataDir: filepath.Join(t.TempDir(), "data"), Stamp: datadir.CurrentStamp()},
		Store: store, Target: target, Prefix: "/registry", Log: zap.NewNop(),
		Say: func(format string, args ...any) { said += fmt.Sprintf(format, args...) },
	})
	if err != nil || outcome.Broken == nil || outcome.Revision != last {
		t.Fatalf("restored %+v, %v", outcome, err)
	}
	wants(t, outcome.Broken, "chain 2, which began at", fmt.Sprintf("--revision %d", chain.Bases[0].Revision))
	if !strings.Contains(said, "WARNING") || strings.Contains(said, "no change between") {
		t.Errorf("the restore says %q", said)
	}
	spans, leftOut, err := (&Reader{Store: store}).Find(t.Context(), target)
	if err != nil || len(spans) == 0 || spans[0].Chain.Number != 1 {
		t.Errorf("the spans are %+v, %v", spans, err)
	}
	wants(t, leftOut, "chain 2, which began at")
	if _, outcome, err := restore(t, store, Target{At: target.At.Add(-time.Millisecond)}); err != nil || outcome.Broken != nil {
		t.Errorf("before chain 2: %+v, %v", outcome, err)
	}
}

// TestUnreadableNewestChain: a restore that would leave out a chain is refused with its name,
// unless it is of a moment before that chain.
func TestUnreadableNewestChain(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, last := twoChains(t)
			if err := spoil(store.file(chainName(2, chainFile))); err != nil {
				t.Fatal(err)
			}
			_, _, err := restore(t, store, Target{})
			wants(t, err, "chain 2 of", "cannot be read, and would be left out", "--at or --revision", "backup list --from "+store.String())
			if _, _, err := restore(t, store, Target{At: time.Now()}); err == nil {
				t.Error("the present is restored without chain 2")
			}
			if _, outcome, err := restore(t, store, Target{Revision: last}); err != nil || outcome.Revision != last {
				t.Errorf("revision %d before chain 2: %+v, %v", last, outcome, err)
			}
		})
	}
}
