package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/fleet"
)

// elects makes the writer take part in an election.
func elects(c *Config) {
	connect := c.Connect
	c.Election = func() *fleet.Election { return fleet.NewElection(connect().Client, "archive", "/registry") }
}

// another starts another writer on the same etcd.
func (f *fixture) another(store Store) *fixture {
	f.t.Helper()
	second := &fixture{t: f.t, dataDir: f.t.TempDir(), member: f.member, config: f.config}
	second.config.DataDir, second.config.Base, second.config.Store = second.dataDir, second.base(f.member.Snapshot), store
	second.startWriter()
	f.t.Cleanup(second.stopWriter)
	return second
}

// stands waits until the writer is on standby behind a leader.
func (f *fixture) stands() {
	f.t.Helper()
	await(f.t, "the writer is on standby", func() error {
		if a := f.writer.Account(f.t.Context()); !a.Standby || a.Leader == "" || a.LagSeconds != 0 || a.Error != "" {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

// TestElection: of two writers on one etcd one archives. The other one continues after
// it, in a chain that states the reason, and the first one continues its own chain when
// it is elected again at once.
func TestElection(t *testing.T) {
	t.Parallel()
	store := NewDirectory(t.TempDir())
	first := start(t, store, t.TempDir(), elects)
	first.history(1)
	first.caughtUp()

	// Its lease expires, and no other server takes part.
	expire(t, first)
	first.history(1)
	first.caughtUp()
	if chains := claims(t, store); len(chains) != 1 {
		t.Errorf("chains after the lease has expired: %+v", chains)
	}

	second := first.another(store)
	second.stands()
	expire(t, first)
	second.history(1)
	first.stands()
	await(t, "the first server waits to be elected", func() error {
		if n := candidates(t, first); n != 2 {
			return fmt.Errorf("%d candidates", n)
		}
		return nil
	})
	second.caughtUp()
	chains := claims(t, store)
	if len(chains) != 2 || chains[1].Claim.Predecessor == nil || chains[1].Claim.Writer != chains[0].Claim.Writer {
		t.Fatalf("chains: %+v", chains)
	}
	wants(t, errors.New(chains[1].Claim.Reason), "another server was elected", "chain 1 was written on")
	restoresAll(t, second, store)

	second.stopWriter()
	first.history(1)
	first.caughtUp()
	restoresAll(t, first, store)
	if chains := claims(t, store); len(chains) != 3 {
		t.Errorf("chains after the second server has stopped: %+v", chains)
	}
}

// spoilt is a store in which a segment is missing, or damaged.
type spoilt struct {
	Store
	name    string
	missing bool
}

func (s *spoilt) List(ctx context.Context, prefix, after string) ([]Object, error) {
	objects, err := s.Store.List(ctx, prefix, after)
	return slices.DeleteFunc(objects, func(o Object) bool { return s.missing && o.Name == s.name }), err
}

func (s *spoilt) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	body, err := s.Store.Open(ctx, name)
	if err != nil || name != s.name {
		return body, err
	}
	data, err := io.ReadAll(body)
	data[len(data)/2] ^= 1
	return io.NopCloser(bytes.NewReader(data)), errors.Join(err, body.Close())
}

// TestSuccessorChecksTheEnd: the server that is elected checks the last segments of the one
// before, which may not have done so: its chain states up to which revision the other one
// can be restored.
func TestSuccessorChecksTheEnd(t *testing.T) {
	t.Parallel()
	for name, missing := range map[string]bool{"a damaged segment": false, "a segment that is missing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := NewDirectory(t.TempDir())
			first := start(t, store, t.TempDir(), elects)
			var segments []Segment
			for i := 0; len(segments) < 3; i++ { // the base may have the first changes
				first.put("a", fmt.Sprint(i))
				first.caughtUp()
				var err error
				if segments, err = (&Chain{Number: 1}).Segments(t.Context(), store, 0); err != nil {
					t.Fatal(err)
				}
			}
			broken, before := segments[len(segments)-2], segments[len(segments)-3]
			second := first.another(&spoilt{store, broken.Object.Name, missing})
			var recorded recorder
			second.writer.RecordEvents(recorded.record)
			second.stands()
			expire(t, first)
			second.caughtUp()
			chains := claims(t, store)
			if len(chains) != 2 || chains[1].Claim.Predecessor == nil {
				t.Fatalf("chains: %+v", chains)
			}
			if p := *chains[1].Claim.Predecessor; p.Last != before.Last || p.Damaged == "" || !strings.HasPrefix(broken.Object.Name, p.Damaged) {
				t.Errorf("the claim says %+v; %s is broken, and %s is before it", p, broken.Object.Name, before.Object.Name)
			}
			wants(t, errors.New(chains[1].Claim.Reason), "another server was elected", fmt.Sprintf("it can be restored up to revision %d", before.Last))
			recorded.wants(t, "ArchiveChainEnded", "damaged")
		})
	}
}

// denying is a store that refuses a server while it is set.
type denying struct {
	Store
	denied atomic.Bool
}

func (d *denying) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if d.denied.Load() {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return d.Store.Create(ctx, name, body, size)
}

// TestDeniedServer: a server that may not write to the destination lets another one be
// elected, from its start or later, and its account has the reason.
func TestDeniedServer(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"from its start": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := NewDirectory(t.TempDir())
			own := &denying{Store: store}
			own.denied.Store(before)
			first := start(t, own, t.TempDir(), elects)
			if before {
				await(t, "the account has the error", func() error {
					if a := first.writer.Account(t.Context()); a.Standby || !strings.Contains(a.Error, "permission denied") {
						return fmt.Errorf("%+v", a)
					}
					return nil
				})
			} else {
				first.caughtUp()
			}
			second := first.another(store)
			own.denied.Store(true)
			first.history(1)
			await(t, "the second server writes", func() error {
				if a := second.writer.Account(t.Context()); a.Standby || a.Chain == 0 {
					return fmt.Errorf("%+v", a)
				}
				return nil
			})
			second.caughtUp()
			restoresAll(t, second, store)
			await(t, "the first server says why it does not write", func() error {
				if a := first.writer.Account(t.Context()); !a.Standby || !strings.Contains(a.Error, "permission denied") {
					return fmt.Errorf("%+v", a)
				}
				return nil
			})
		})
	}
}

// slow is a store that calls before, once, before it creates a chain.json.
type slow struct {
	Store
	before func()
	once   sync.Once
}

func (s *slow) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if strings.HasSuffix(name, chainFile) {
		s.once.Do(s.before)
	}
	return s.Store.Create(context.WithoutCancel(ctx), name, body, size)
}

// TestLostElectionDuringClaim: a server that loses the election while it begins a chain does
// not claim another one behind its successor.
func TestLostElectionDuringClaim(t *testing.T) {
	t.Parallel()
	store := NewDirectory(t.TempDir())
	begins, goesOn := make(chan struct{}), make(chan struct{})
	first := start(t, &slow{Store: store, before: func() { close(begins); <-goesOn }}, t.TempDir(), elects)
	<-begins
	second := first.another(store)
	expire(t, first)
	second.caughtUp()
	close(goesOn)
	first.stands()
	await(t, "the first server waits to be elected", func() error {
		if n := candidates(t, first); n != 2 {
			return fmt.Errorf("%d candidates", n)
		}
		return nil
	})
	second.history(1)
	second.caughtUp()
	if chains := claims(t, store); len(chains) != 1 {
		t.Errorf("chains: %+v, %+v", chains[0].Claim, chains[len(chains)-1].Claim)
	}
	restoresAll(t, second, store)
}

// electionKeys is the prefix of the candidates' keys.
const electionKeys = "/kube-hyper-mini/elections/archive/registry/"

// candidates is how many servers take part in the election.
func candidates(t *testing.T, f *fixture) int64 {
	t.Helper()
	response, err := f.member.Client().Get(t.Context(), electionKeys, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return response.Count
}

// expire ends the lease of the elected server, and waits until one is elected again.
func expire(t *testing.T, f *fixture) {
	t.Helper()
	client := f.member.Client()
	elected := func() (lease int64, err error) {
		response, err := client.Get(t.Context(), electionKeys, clientv3.WithFirstCreate()...)
		if err == nil && len(response.Kvs) == 0 {
			err = errors.New("none is elected")
		}
		if err != nil {
			return 0, err
		}
		return response.Kvs[0].Lease, nil
	}
	before, err := elected()
	if err == nil {
		_, err = client.Revoke(t.Context(), clientv3.LeaseID(before))
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a server is elected", func() error {
		now, err := elected()
		if err == nil && now == before {
			err = errors.New("the lease is the former one")
		}
		return err
	})
}

// TestOtherEtcd: servers of another etcd are refused, with the name to take over.
func TestOtherEtcd(t *testing.T) {
	t.Parallel()
	store := NewDirectory(t.TempDir())
	first := start(t, store, t.TempDir(), elects)
	first.caughtUp()
	other := start(t, store, t.TempDir(), elects)
	owner := claims(t, store)[0].Claim.Writer
	await(t, "the other etcd is refused", func() error {
		if text := other.writer.Account(t.Context()).Error; !strings.Contains(text, "is the archive of another server ("+owner) {
			return errors.New(text)
		}
		return nil
	})
	other.stopWriter()
	other.config.TakeOver = owner
	other.startWriter()
	other.caughtUp()
	restoresAll(t, other, store)
}
