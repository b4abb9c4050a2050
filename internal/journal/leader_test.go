package journal

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// throne decides which of the writers on one etcd leads.
type throne struct{ free chan struct{} }

// candidate makes the writer one of those that may lead. end ends its term.
func (t *throne) candidate(c *Config) (end func()) {
	var cancel context.CancelFunc
	c.Identity = func(context.Context) (string, error) { return "etcd-of-both", nil }
	c.Lead = func(ctx context.Context) (context.Context, error) {
		select {
		case <-t.free:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		var leading context.Context
		leading, cancel = context.WithCancel(ctx)
		return leading, nil
	}
	return func() { cancel() }
}

// another starts another writer on the same etcd.
func (f *fixture) another(store Store, change func(*Config)) *fixture {
	f.t.Helper()
	second := &fixture{t: f.t, dataDir: f.t.TempDir(), member: f.member, config: f.config}
	second.config.DataDir, second.config.Base, second.config.Store = second.dataDir, second.base(f.member.Snapshot), store
	change(&second.config)
	second.startWriter()
	f.t.Cleanup(second.stopWriter)
	return second
}

// TestLeader: of two writers on one etcd the one that leads journals. The next one begins a
// chain, and the first one does so again after it.
func TestLeader(t *testing.T) {
	t.Parallel()
	store, throne := NewDirectory(t.TempDir()), &throne{free: make(chan struct{})}
	endFirst, endSecond := func() {}, func() {}
	first := start(t, store, t.TempDir(), func(c *Config) { endFirst = throne.candidate(c) })
	throne.free <- struct{}{}
	first.history(1)
	first.caughtUp()
	second := first.another(store, func(c *Config) { endSecond = throne.candidate(c) })
	if a := second.writer.Account(t.Context()); !a.Standby || a.LagSeconds != 0 {
		t.Errorf("the second writer: %+v", a)
	}
	endFirst()
	first.awaitAccount("the first writer is on standby", func(a Account) bool { return a.Standby })
	first.stopWriter()
	first.history(1)
	throne.free <- struct{}{}
	second.caughtUp()
	restoresAll(t, second, store)

	endSecond()
	second.stopWriter()
	first.startWriter()
	throne.free <- struct{}{}
	first.history(1)
	first.caughtUp()
	restoresAll(t, first, store)
	chains := claims(t, store)
	if len(chains) != 3 || chains[0].Claim.Writer != "etcd-of-both" {
		t.Fatalf("chains: %+v", chains)
	}
	wants(t, errors.New(chains[2].Claim.Reason), "chain 2 was begun by the writer etcd-of-both")
}

// TestOtherEtcd: a server that moves to a shared etcd continues the destination, and one
// of another etcd is refused.
func TestOtherEtcd(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.caughtUp()
	f.stopWriter()
	throne := &throne{free: make(chan struct{}, 2)}
	throne.free <- struct{}{}
	throne.candidate(&f.config)
	f.startWriter()
	f.caughtUp()
	hasChains(t, store, 2)
	throne.free <- struct{}{}
	other := start(t, store, t.TempDir(), func(c *Config) {
		throne.candidate(c)
		c.Identity = func(context.Context) (string, error) { return "etcd-of-others", nil }
	})
	await(t, "the other server is refused", func() error {
		if text := other.writer.Account(t.Context()).Error; !strings.Contains(text, "is the journal of another server") {
			return errors.New(text)
		}
		return nil
	})
}

// leads makes the writer the leader of a shared etcd.
func leads(c *Config) {
	c.Identity = func(context.Context) (string, error) { return "etcd-of-both", nil }
	c.Lead = func(ctx context.Context) (context.Context, error) { return ctx, nil }
}
