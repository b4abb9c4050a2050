package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// fixture is a server: an etcd and a writer that journals it.
type fixture struct {
	t       testing.TB
	dataDir string
	member  *etcd.Member
	config  Config
	writer  *Writer
	stop    func()
	ended   chan error // has the error of Run
}

// begun is a server and the directory that it journals to.
func begun(t testing.TB) (*Directory, *fixture) {
	t.Helper()
	store := NewDirectory(t.TempDir())
	return store, start(t, store, t.TempDir(), nil)
}

// start starts etcd on the data directory, and a writer to the store.
func start(t testing.TB, store Store, dataDir string, change func(*Config)) *fixture {
	t.Helper()
	member, stop, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(dataDir, "etcd"), QuotaBytes: 1 << 30, Logger: zap.NewNop()})
	if err == nil {
		err = member.WaitReady(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dataDir: dataDir, member: member}
	t.Cleanup(func() {
		f.stopWriter()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	f.config = Config{
		Store: store, DataDir: dataDir, Interval: 20 * time.Millisecond, Retention: time.Hour, MaxSpool: 1 << 30,
		Version: "v0.0.0-test", Log: slog.New(slog.DiscardHandler),
		Connect: func() storage.Connection {
			return storage.Connection{Client: member.Client(), NewWatcher: member.NewWatcher}
		},
		WaitReady: member.WaitReady,
		Base:      f.base(member.Snapshot),
	}
	if change != nil {
		change(&f.config)
	}
	f.startWriter()
	return f
}

func (f *fixture) startWriter() {
	f.writer = NewWriter(f.config)
	f.writer.stopDrain, f.writer.stopGrace = time.Minute, time.Minute
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	f.ended = make(chan error, 1)
	go func() { f.ended <- f.writer.Run(ctx, func() { close(ready) }) }()
	<-ready
	f.stop = func() {
		cancel()
		if err := <-f.ended; err != nil {
			f.t.Error(err)
		}
	}
}

func (f *fixture) stopWriter() {
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

func (f *fixture) put(key, value string, options ...clientv3.OpOption) int64 {
	f.t.Helper()
	response, err := f.member.Client().Put(f.t.Context(), key, value, options...)
	if err != nil {
		f.t.Fatal(err)
	}
	return response.Header.Revision
}

// makeBase resumes the chain of the writer, adds a base to it, and returns the session.
func (f *fixture) makeBase() *session {
	f.t.Helper()
	s, err := f.writer.resume(f.t.Context())
	if err != nil || s == nil {
		f.t.Fatalf("there is no chain to resume: %v", err)
	}
	if err := s.makeBase(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// caughtUp waits until the destination has everything.
func (f *fixture) caughtUp() {
	f.t.Helper()
	f.awaitAccount("the journal has everything", func(a Account) bool { return a.LagRevisions == 0 && a.LagSeconds == 0 && a.Chain > 0 })
}

func (f *fixture) awaitAccount(what string, condition func(Account) bool) {
	f.t.Helper()
	await(f.t, what, func() error {
		if a := f.writer.Account(f.t.Context()); !condition(a) {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

func (f *fixture) compact(revision int64) {
	f.t.Helper()
	if _, err := f.member.Client().Compact(f.t.Context(), revision); err != nil {
		f.t.Fatal(err)
	}
}

func await(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	err := check()
	for ; err != nil && time.Now().Before(deadline); err = check() {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// content is the state of the keys.
type content map[string]string

// state returns what etcd has at a revision, with the revisions of the keys.
func (f *fixture) state(revision int64) content {
	f.t.Helper()
	response, err := f.member.Client().Get(f.t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision))
	if err != nil {
		f.t.Fatal(err)
	}
	state := content{}
	for _, kv := range response.Kvs {
		state[string(kv.Key)] = fmt.Sprintf("%s %d", kv.Value, kv.ModRevision)
	}
	return state
}

// restore restores the target into a new directory and returns its state.
func restore(t testing.TB, store Store, target Target) (content, *Outcome, error) {
	t.Helper()
	return restoreTo(t, store, target, filepath.Join(t.TempDir(), "data"))
}

// restoreTo restores the target into the directory.
func restoreTo(t testing.TB, store Store, target Target, dir string) (content, *Outcome, error) {
	t.Helper()
	_, outcome, err := Restore(t.Context(), RestoreConfig{
		Into:  backup.RestoreConfig{DataDir: dir, Stamp: datadir.CurrentStamp()},
		Store: store, Target: target, Prefix: "/registry", Say: t.Logf, Log: zap.NewNop(),
	})
	if err != nil {
		return nil, outcome, err
	}
	return contentOf(t, filepath.Join(dir, "etcd", "member", "snap", "db")), outcome, nil
}

// contentOf reads a database of etcd.
func contentOf(t testing.TB, path string) content {
	t.Helper()
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	state := content{}
	err = db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(schema.Key.Name()).ForEach(func(revision, value []byte) error {
			record, err := etcdfiles.ParseRecord(revision, value)
			if err != nil {
				return err
			}
			switch {
			case record.Raised:
			case record.Deleted:
				delete(state, string(record.Key))
			default:
				state[string(record.Key)] = fmt.Sprintf("%s %d", record.Value, record.Revision)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// history makes changes of every kind.
func (f *fixture) history(rounds int) {
	f.t.Helper()
	client := f.member.Client()
	lease, err := client.Grant(f.t.Context(), 3000)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range rounds {
		f.put(fmt.Sprintf("/registry/a/%d", i%7), fmt.Sprint(i))
		f.put(fmt.Sprintf("not of kubernetes %d", i%3), "", clientv3.WithLease(lease.ID))
		_, err := client.Txn(f.t.Context()).Then(
			clientv3.OpPut("/registry/t/1", fmt.Sprint(i)), clientv3.OpPut("/registry/t/2", fmt.Sprint(i)), clientv3.OpDelete("/registry/a/1"),
		).Commit()
		if err == nil {
			_, err = client.Delete(f.t.Context(), "/registry/a/", clientv3.WithPrefix(), clientv3.WithRange(fmt.Sprintf("/registry/a/%d", i%5)))
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

func revision(t *testing.T, f *fixture) int64 {
	t.Helper()
	response, err := f.member.Client().Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

// TestRestoreOfEachRevision restores each revision of a history with the revisions of its
// keys, over a restart of the writer.
func TestRestoreOfEachRevision(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.caughtUp() // the base has nothing of the history
	first := revision(t, f) + 1
	f.history(10)
	f.stopWriter()
	f.history(3)
	f.startWriter()
	f.history(3)
	f.caughtUp()
	last := revision(t, f)
	for number := first; number <= last; number++ {
		got, outcome, err := restore(t, store, Target{Revision: number})
		if err != nil {
			t.Fatalf("revision %d: %v", number, err)
		}
		if want := f.state(number); !maps.Equal(got, want) || outcome.Revision != number {
			t.Fatalf("revision %d: restored %d with %v, want %v", number, outcome.Revision, got, want)
		}
	}
	if _, outcome, err := restore(t, store, Target{}); err != nil || outcome.Revision != last || outcome.Chain.Number != 1 {
		t.Errorf("the newest state is %+v, %v, want revision %d", outcome, err, last)
	}
	_, _, err := restore(t, store, Target{Revision: last + 1})
	wants(t, err, fmt.Sprintf("revision %d cannot be restored", last+1))
	_, _, err = restore(t, store, Target{At: time.Now().Add(-24 * time.Hour)})
	wants(t, err, "cannot be restored from", "backup list --from "+store.String())
}

// TestRestoreToATime restores what was written before a moment and nothing after it.
func TestRestoreToATime(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.caughtUp()
	var moments []time.Time
	var revisions []int64
	for range 5 {
		f.history(2)
		f.caughtUp()
		revisions, moments = append(revisions, revision(t, f)), append(moments, time.Now())
		await(t, "the clock goes on", func() error {
			if !time.Now().After(moments[len(moments)-1].Add(2 * time.Millisecond)) {
				return errors.New("not yet")
			}
			return nil
		})
	}
	for i, moment := range moments {
		got, outcome, err := restore(t, store, Target{At: moment})
		if err != nil || outcome.Revision != revisions[i] || !maps.Equal(got, f.state(revisions[i])) {
			t.Errorf("at %s: revision %+v, want %d, %v", moment, outcome, revisions[i], err)
		}
	}
}

// names lists the objects of a chain.
func names(t *testing.T, store Store, prefix string) []string {
	t.Helper()
	objects, err := store.List(t.Context(), prefix, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, object.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("not in order: %q", names)
	}
	return names
}
