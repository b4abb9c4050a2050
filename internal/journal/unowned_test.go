package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestResumeAtAnotherJournal: a server that resumes at the journal of another one, whose disk
// was mounted in the place of its own, leaves it as it is, also without a change to write.
func TestResumeAtAnotherJournal(t *testing.T) {
	t.Parallel()
	dirs := []string{filepath.Join(t.TempDir(), "journal"), filepath.Join(t.TempDir(), "journal")}
	var servers []*fixture
	for _, dir := range dirs {
		f := start(t, NewDirectory(dir), t.TempDir(), nil)
		f.history(1)
		f.caughtUp()
		f.stopWriter()
		servers = append(servers, f)
	}
	moved := dirs[0] + ".moved"
	if err := errors.Join(os.Rename(dirs[0], moved), os.Rename(dirs[1], dirs[0]), os.Rename(moved, dirs[1])); err != nil {
		t.Fatal(err)
	}
	store := NewDirectory(dirs[0])
	before := names(t, store, "")
	servers[0].startWriter()
	await(t, "the server is refused", func() error {
		if text := servers[0].writer.Account(t.Context()).Error; !strings.Contains(text, "is the journal of another server") {
			return errors.New(text)
		}
		return nil
	})
	if after := names(t, store, ""); !slices.Equal(before, after) {
		t.Errorf("the journal of the other server has %q, and had %q", after, before)
	}
}

// TestOlderCopyOfTheDataDirectory: a server that resumes from an older copy of its data directory
// begins a chain, also without a change to write, and the former one can be restored.
func TestOlderCopyOfTheDataDirectory(t *testing.T) {
	t.Parallel()
	store, older := NewDirectory(t.TempDir()), t.TempDir()
	f := start(t, store, t.TempDir(), nil)
	f.history(1)
	f.caughtUp()
	f.stopWriter()
	if err := os.CopyFS(older, os.DirFS(f.writer.dir)); err != nil {
		t.Fatal(err)
	}
	f.startWriter()
	f.history(1)
	f.caughtUp()
	f.stopWriter()
	last := revision(t, f)
	if err := errors.Join(os.RemoveAll(f.writer.dir), os.Rename(older, f.writer.dir)); err != nil {
		t.Fatal(err)
	}
	before := names(t, store, chainName(1, endsDir))
	f.startWriter()
	await(t, "a new chain is begun", func() error {
		if chains := claims(t, store); len(chains) != 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if after := names(t, store, chainName(1, endsDir)); !slices.Equal(before, after) {
		t.Errorf("the ends are %q, and were %q", after, before)
	}
	if _, outcome, err := restore(t, store, Target{Revision: last}); err != nil || outcome.Revision != last {
		t.Errorf("restored %+v, %v", outcome, err)
	}
}
