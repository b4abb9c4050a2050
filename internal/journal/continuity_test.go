package journal

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// restoresAll compares the newest state of the store with that of etcd.
func restoresAll(t *testing.T, f *fixture, store Store) {
	t.Helper()
	got, outcome, err := restore(t, store, Target{})
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Broken != nil || outcome.Revision != revision(t, f) || !maps.Equal(got, f.state(0)) {
		t.Errorf("restored %+v (%v), want revision %d", outcome, outcome.Broken, revision(t, f))
	}
}

// TestLostSpool: a power failure takes the segments that were shipped last. A new
// chain begins: another segment with a number that is taken would break the chain.
func TestLostSpool(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.caughtUp()
	f.history(3)
	f.caughtUp()
	f.stopWriter()
	shipped := f.writer.spool.shippedDir()
	entries, err := os.ReadDir(shipped)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d shipped segments are kept, %v", len(entries), err)
	}
	for _, entry := range entries {
		if err := os.Truncate(filepath.Join(shipped, entry.Name()), 0); err != nil {
			t.Fatal(err)
		}
	}
	f.history(3)
	f.startWriter()
	f.caughtUp()
	restoresAll(t, f, store)
	chains := hasChains(t, store, 2)
	wants(t, errors.New(chains[1].Claim.Reason), "the spool has lost it")
}

// TestLostAnswers: claims that were stored, but whose answers were lost, are recognized: there
// is one chain.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	store := &lossy{Store: NewDirectory(t.TempDir()), lost: map[string]bool{}}
	f := start(t, store, t.TempDir(), nil)
	f.history(1)
	f.caughtUp()
	chains := claims(t, store)
	if len(chains) != 1 || len(chains[0].Bases) == 0 {
		t.Errorf("chains: %+v", chains)
	}
	restoresAll(t, f, store)
}

// lossy loses the answer to the first attempt to create each claim, segment and end.
type lossy struct {
	Store
	mu   sync.Mutex
	lost map[string]bool
}

func (l *lossy) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	err := l.Store.Create(ctx, name, body, size)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost[name] || strings.Contains(name, basesDir) {
		return err
	}
	l.lost[name] = true
	return errors.New("503 slow down")
}

// TestUnmountedDestination: nothing is stored in the directory that a disk is mounted on, and
// the chain continues when the disk is there again.
func TestUnmountedDestination(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*Config)
		restart bool
	}{
		"while it runs":                   {},
		"before it starts":                {restart: true},
		"before it starts on shared etcd": {change: leads, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mount := filepath.Join(t.TempDir(), "mount")
			store := NewDirectory(mount)
			f := start(t, store, t.TempDir(), c.change)
			f.caughtUp()
			if c.restart {
				f.stopWriter()
			}
			if err := errors.Join(os.Rename(mount, mount+".disk"), os.Mkdir(mount, 0o700)); err != nil {
				t.Fatal(err)
			}
			f.history(1)
			if c.restart {
				f.startWriter()
			}
			f.awaitAccount("the account has the error", func(a Account) bool { return strings.Contains(a.Error, "mount its disk") && a.LagRevisions > 0 })
			if err := errors.Join(os.Remove(mount), os.Rename(mount+".disk", mount)); err != nil {
				t.Fatalf("something was stored: %v", err)
			}
			f.caughtUp()
			restoresAll(t, f, store)
			hasChains(t, store, 1)
		})
	}
}

// TestEmptyChainDirectory: a directory that a full disk has left does not keep the
// server from its first chain.
func TestEmptyChainDirectory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, chainName(1)), 0o700); err != nil {
		t.Fatal(err)
	}
	store := NewDirectory(root)
	f := start(t, store, t.TempDir(), nil)
	f.caughtUp()
	if chains := claims(t, store); len(chains) != 1 || chains[0].Claim == nil {
		t.Errorf("chains: %+v", chains)
	}
}

// lateWatcher delivers changes when it is released.
type lateWatcher struct {
	clientv3.Watcher
	release <-chan struct{}
}

func (w lateWatcher) Watch(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	from, to := w.Watcher.Watch(ctx, key, options...), make(chan clientv3.WatchResponse)
	go func() {
		defer close(to)
		<-w.release
		for response := range from {
			select {
			case to <- response:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

// TestStopJournalsTheLastWrite although the watch has not delivered it yet.
func TestStopJournalsTheLastWrite(t *testing.T) {
	t.Parallel()
	store, release := NewDirectory(t.TempDir()), make(chan struct{})
	f := start(t, store, t.TempDir(), func(c *Config) {
		connect := c.Connect
		c.Connect = func() storage.Connection {
			connection := connect()
			watcher := connection.NewWatcher
			connection.NewWatcher = func() clientv3.Watcher { return lateWatcher{watcher(), release} }
			return connection
		}
	})
	f.caughtUp()
	f.put("last", "1")
	timer := time.AfterFunc(100*time.Millisecond, func() { close(release) }) // while the writer stops
	defer timer.Stop()
	f.stopWriter()
	restoresAll(t, f, store)
}

// TestRestoredToAnEarlierChain: the server continues with the destination when the
// moment was in a chain before the newest one.
func TestRestoredToAnEarlierChain(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.caughtUp()
	moment := revision(t, f)
	f.history(1)
	f.caughtUp()
	f.stopWriter()
	f.history(1)
	f.compact(revision(t, f))
	f.startWriter() // a second chain
	f.caughtUp()
	f.stopWriter()
	dir := filepath.Join(t.TempDir(), "data")
	if _, _, err := restoreTo(t, store, Target{Revision: moment}, dir); err != nil {
		t.Fatal(err)
	}
	restored := start(t, store, dir, nil)
	restored.caughtUp()
	chains := claims(t, store)
	if len(chains) != 3 || chains[2].Claim.Restored != chains[0].Claim.ID {
		t.Errorf("chains: %+v", chains)
	}
}

// TestDroppedIdentity: a file whose segment was dropped goes into the next one.
func TestDroppedIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := newIdentityFiles(dir, nil)
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(dir, "encryption"), 0o700), os.WriteFile(filepath.Join(dir, "encryption", "keys"), []byte("1"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after func()
		want  int
	}{{func() {}, 1}, {func() {}, 0}, {files.rollback, 1}, {files.commit, 0}, {files.rollback, 0}} {
		step.after()
		changed, err := files.changed()
		if err != nil || len(changed) != step.want {
			t.Errorf("changed files: %v, %v, want %d", changed, err, step.want)
		}
	}
}

// TestNamedKeyFile: a file that the configuration names goes into segments when it
// changes, stays recorded while it is replaced, and is restored beside the saved
// configuration.
func TestNamedKeyFile(t *testing.T) {
	t.Parallel()
	const name = "config/files/apiServer.encryption.configFile"
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	files, err := newIdentityFiles(t.TempDir(), map[string]string{name: path})
	if err != nil {
		t.Fatal(err)
	}
	changed := func(want ...string) []File {
		t.Helper()
		found, err := files.changed()
		var got []string
		for _, file := range found {
			got = append(got, string(file.Content))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("changed files: %q, %v, want %q", got, err, want)
		}
		return found
	}
	changed()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	changed()
	write("22")
	file, content := changed("22")[0], t.TempDir()
	if err := putFile(content, file); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(content, "restored-config", "files", "apiServer.encryption.configFile")); err != nil || string(data) != "22" {
		t.Errorf("restored %q, %v", data, err)
	}
	for _, bad := range []string{"config/config.yaml", "config/files/apiServer.encryption.x/../../../a", "etcd/a", "../a"} {
		wants(t, putFile(content, File{Name: bad}), "which no journal has")
	}
}

// lumbering is a store that takes its time for each segment.
type lumbering struct {
	Store
	slow atomic.Bool
	made atomic.Int64
}

func (l *lumbering) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if l.slow.Load() {
		l.made.Add(1)
		<-time.After(500 * time.Millisecond)
	}
	return l.Store.Create(ctx, name, body, size)
}

// TestSlowDestination: changes that wait for a slow destination go into one segment, so that
// the lag does not grow.
func TestSlowDestination(t *testing.T) {
	t.Parallel()
	store := &lumbering{Store: NewDirectory(t.TempDir())}
	f := start(t, store, t.TempDir(), nil)
	f.caughtUp()
	store.slow.Store(true)
	began := time.Now()
	changes := 0
	for ; store.made.Load() < 3; changes++ { // each in an interval of its own
		f.put("key", "value")
		<-time.After(30 * time.Millisecond)
	}
	f.caughtUp()
	most := int64(time.Since(began)/(500*time.Millisecond)) + 1
	if made := store.made.Load(); made > most || changes < 4 {
		t.Errorf("%d changes in %s were shipped in %d segments", changes, time.Since(began), made)
	}
	restoresAll(t, f, store)
}
