package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// claims returns the claims of a store.
func claims(t *testing.T, store Store) []*Chain {
	t.Helper()
	chains, err := Chains(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	return chains
}

// hasChains returns the claims of a store, which are as many.
func hasChains(t *testing.T, store Store, count int) []*Chain {
	t.Helper()
	chains := claims(t, store)
	if len(chains) != count {
		t.Fatalf("chains: %+v, want %d", chains, count)
	}
	return chains
}

// TestOneWriter: a second server is refused with the remedy. A restored server, and one
// with journal.takeOver, continues the journal; the server before it stops writing.
func TestOneWriter(t *testing.T) {
	t.Parallel()
	store := NewDirectory(t.TempDir())
	first := start(t, store, t.TempDir(), func(c *Config) { c.StopIfSuperseded = true })
	first.put("a", "1")
	first.caughtUp()
	owner := claims(t, store)[0].Claim

	second := start(t, store, t.TempDir(), nil)
	await(t, "the second server is refused", func() error {
		if text := second.writer.Account(t.Context()).Error; !strings.Contains(text, "is the journal of another server") || !strings.Contains(text, owner.Writer) || !strings.Contains(text, "journal.takeOver") {
			return errors.New(text)
		}
		return nil
	})
	hasChains(t, store, 1)

	dir := t.TempDir()
	if err := datadir.WriteJSON(filepath.Join(dir, RestoredFile), restoredMark{Chain: owner.ID, Revision: 2}); err != nil {
		t.Fatal(err)
	}
	restored := start(t, store, dir, nil)
	restored.put("b", "1")
	restored.caughtUp()
	if chains := claims(t, store); len(chains) != 2 || chains[1].Claim.Restored != owner.ID {
		t.Fatalf("chains after the restored server: %+v", chains)
	}
	if err := first.writer.stillOwner(t.Context(), state{Claim: *owner, Number: 1}); err == nil || !strings.Contains(err.Error(), "chain 2 was begun") {
		t.Errorf("the error of the first server is %v", err)
	}

	first.put("nowhere", "1")
	wants(t, <-first.ended, "is the journal of another server", "journal.stopIfSuperseded")
	first.ended <- nil
	if text := first.writer.Account(t.Context()).Error; !strings.Contains(text, "is the journal of another server") {
		t.Errorf("the first server says: %q", text)
	}

	successor := start(t, store, t.TempDir(), func(c *Config) { c.TakeOver = claims(t, store)[1].Claim.Writer })
	successor.caughtUp()
	hasChains(t, store, 3)
}

// TestNewChain: where the history does not continue, a new chain begins and has the reason.
func TestNewChain(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.history(3)
	f.caughtUp()
	f.stopWriter()
	f.history(3)
	f.compact(revision(t, f) - 1)
	f.startWriter()
	f.caughtUp()
	chains := hasChains(t, store, 2)
	wants(t, errors.New(chains[1].Claim.Reason), "were compacted before they were recorded")
	windows, err := Windows(t.Context(), store)
	if err != nil || len(windows) != 2 || len(windows[0].Gaps) > 0 {
		t.Fatalf("windows: %+v, %v", windows, err)
	}
	want := fmt.Sprintf("not all of the revisions %d to %d can be restored", windows[0].LastRevision+1, windows[1].FirstRevision-1)
	if windows[1].Gap != want {
		t.Errorf("the gap is %q, want %q", windows[1].Gap, want)
	}
	restoresAll(t, f, store)
}

// TestUnclaimedChain: a chain whose chain.json is missing or damaged does not keep a server
// from its journal. The next chain says so.
func TestUnclaimedChain(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"missing": os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := NewDirectory(dir)
			f := start(t, store, t.TempDir(), nil)
			f.history(1)
			f.caughtUp()
			f.stopWriter()
			if err := spoil(filepath.Join(dir, filepath.FromSlash(chainName(1, chainFile)))); err != nil {
				t.Fatal(err)
			}
			f.history(1)
			f.startWriter()
			f.caughtUp()
			restoresAll(t, f, store)
			chains := claims(t, store)
			if len(chains) != 2 || chains[1].Claim == nil {
				t.Fatalf("chains: %+v", chains)
			}
			wants(t, errors.New(chains[1].Claim.Reason), "has disappeared or cannot be read", "chain 1 has no chain.json that can be read")
			f.stopWriter() // the next process continues the chain
			f.startWriter()
			f.history(1)
			f.caughtUp()
			hasChains(t, store, 2)
		})
	}
}

// failing is a store that fails while down is set, at times after it has stored.
type failing struct {
	Store
	down  atomic.Bool
	turns atomic.Int64
}

func (f *failing) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if !f.down.Load() {
		return f.Store.Create(ctx, name, body, size)
	}
	if f.turns.Add(1)%2 == 0 {
		_ = f.Store.Create(ctx, name, body, size) // its answer is lost
	}
	return errors.New("503 slow down")
}

// TestFailingDestination: what the destination does not take waits in the spool, over
// a restart too, and nothing is lost or doubled.
func TestFailingDestination(t *testing.T) {
	t.Parallel()
	store := &failing{Store: NewDirectory(t.TempDir())}
	f := start(t, store, t.TempDir(), nil)
	f.caughtUp()
	store.down.Store(true)
	f.history(3)
	f.awaitAccount("the account has the error", func(a Account) bool {
		return strings.Contains(a.Error, "503 slow down") && a.SpoolBytes > 0 && a.LagRevisions > 0 && a.LagSeconds > 0
	})
	f.stopWriter()
	f.history(3)
	f.startWriter()
	f.history(3)
	store.down.Store(false)
	f.caughtUp()
	if a := f.writer.Account(t.Context()); a.Error != "" || a.SpoolBytes != 0 || a.Chain != 1 {
		t.Errorf("after it: %+v", a)
	}
	if _, outcome, err := restore(t, store, Target{}); err != nil || outcome.Broken != nil || outcome.Revision != revision(t, f) || outcome.Chain.Number != 1 {
		t.Errorf("restored %+v, %v", outcome, err)
	}
}

// logged has what the server has logged. It is safe for concurrent use.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// wants waits for a line with the parts.
func (l *logged) wants(t *testing.T, parts ...string) {
	t.Helper()
	await(t, fmt.Sprintf("the log has %q", parts), func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for line := range strings.Lines(l.text.String()) {
			missing := func(part string) bool { return !strings.Contains(line, part) }
			if !slices.ContainsFunc(parts, missing) {
				return nil
			}
		}
		return errors.New(l.text.String())
	})
}

// TestFullSpool: the journal begins again with a base, and the log reports it.
func TestFullSpool(t *testing.T) {
	t.Parallel()
	store := &failing{Store: NewDirectory(t.TempDir())}
	var log logged
	f := start(t, store, t.TempDir(), func(c *Config) { c.MaxSpool, c.Log = 2000, slog.New(slog.NewTextHandler(&log, nil)) })
	f.caughtUp()
	store.down.Store(true)
	f.history(1)
	log.wants(t, "the journal lags behind", "503 slow down")
	value := make([]byte, 1<<20) // random bytes are not compressed
	for range 2 * maxSegmentSize / len(value) {
		_, _ = rand.Read(value) // it never fails
		f.put("/registry/large", string(value))
	}
	f.awaitAccount("the spool is full", func(a Account) bool {
		return (strings.Contains(a.Error, "the spool of 2000 bytes is full") || strings.Contains(a.Error, "503")) && a.SpoolBytes <= 2000
	})
	f.history(1)
	log.wants(t, "the journal begins a new chain", "the spool of 2000 bytes is full")
	store.down.Store(false)
	f.caughtUp()
	log.wants(t, "the journal works again")
	chains := claims(t, store)
	newest := chains[len(chains)-1]
	if len(chains) < 2 || !strings.Contains(newest.Claim.Reason, "is full") {
		t.Errorf("the newest chain is %+v", newest.Claim)
	}
	restoresAll(t, f, store)
}

// TestLeases: restored keys expire although their lease is younger than the base.
func TestLeases(t *testing.T) {
	t.Parallel()
	store, dir := NewDirectory(t.TempDir()), filepath.Join(t.TempDir(), "data")
	f := start(t, store, t.TempDir(), nil)
	f.caughtUp()
	lease, err := f.member.Client().Grant(t.Context(), 1234)
	if err != nil {
		t.Fatal(err)
	}
	f.put("leased", "", clientv3.WithLease(lease.ID))
	f.caughtUp()
	if _, _, err := restoreTo(t, store, Target{}, dir); err != nil {
		t.Fatal(err)
	}
	restored := start(t, NewDirectory(t.TempDir()), dir, nil)
	if left, err := restored.member.Client().TimeToLive(t.Context(), lease.ID); err != nil || left.GrantedTTL != leaseTTL {
		t.Errorf("the restored lease is %+v, %v", left, err)
	}
}

// TestDirectoryCreatesOnce: a name that is taken keeps its content.
func TestDirectoryCreatesOnce(t *testing.T) {
	t.Parallel()
	d := NewDirectory(filepath.Join(t.TempDir(), "new"))
	create := func(content string) error {
		return d.Create(t.Context(), "a/b/c", bytes.NewReader([]byte(content)), int64(len(content)))
	}
	if err := create("one"); err != nil {
		t.Fatal(err)
	}
	if err := create("two"); !errors.Is(err, ErrExists) {
		t.Errorf("the second creation says %v", err)
	}
	if data, err := readAll(t.Context(), d, "a/b/c", 10); err != nil || string(data) != "one" {
		t.Errorf("the content is %q, %v", data, err)
	}
	if _, err := readAll(t.Context(), d, "a/b/c", 2); !errors.Is(err, ErrDamaged) {
		t.Errorf("more than the limit: %v", err)
	}
	if err := d.Create(t.Context(), "a/b/d", bytes.NewReader([]byte("xx")), 3); err == nil {
		t.Error("a body that is too short was stored")
	}
	if got := names(t, d, "a/"); len(got) != 1 {
		t.Errorf("objects: %q", got)
	}
	if err := d.Remove(t.Context(), "a/b/c"); err != nil {
		t.Error(err)
	}
	if folders, err := d.Folders(t.Context(), ""); err != nil || len(folders) > 0 {
		t.Errorf("folders after the removal: %q, %v", folders, err)
	}
}
