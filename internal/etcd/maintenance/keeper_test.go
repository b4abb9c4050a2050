package maintenance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
)

const mib = 1 << 20

// kept is a member with its keeper.
type kept struct {
	*Keeper
	t      *testing.T
	member *etcd.Member
	stop   func()
	log    *bytes.Buffer
	free   int64
}

func keep(t *testing.T, dir string, quota int64) *kept {
	t.Helper()
	member, stop, err := etcd.Start(t.Context(), etcd.Config{Dir: dir, QuotaBytes: quota, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := member.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := &kept{t: t, member: member, log: &bytes.Buffer{}, free: 1 << 40}
	k.stop = func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	k.Keeper = New(Config{Database: member, Dir: dir, Threshold: 0.5, MinimumSize: 2 * mib, MaximumInUse: 1 << 40, Log: slog.New(slog.NewTextHandler(k.log, nil))})
	k.disk = func(string) (int64, int64, error) { return k.free, 1 << 40, nil }
	t.Cleanup(k.stop)
	return k
}

// value is the size of what is written, in bytes.
const value = 100 << 10

// put writes n values under the keys, and stops at the first refusal.
func (k *kept) put(n int, key func(int) string) error {
	k.t.Helper()
	for i := range n {
		end, err := k.BeginWrite(k.t.Context(), value)
		if err != nil {
			return rpctypes.ErrNoSpace
		}
		_, err = k.member.Client().Put(k.t.Context(), key(i), strings.Repeat("v", value))
		end()
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return err
		}
		if err != nil {
			k.t.Fatal(err)
		}
	}
	return nil
}

// fill writes twice the quota without calling BeginWrite, and waits until the keeper
// refuses writes: etcd updates the size when it commits, ten times a second.
func (k *kept) fill(key func(int) string) {
	k.t.Helper()
	_, _, quota := k.member.Sizes()
	for i := range int(2 * quota / value) {
		if _, err := k.member.Client().Put(k.t.Context(), key(i), strings.Repeat("v", value)); err != nil {
			k.t.Fatal(err)
		}
	}
	k.until("writes are refused", func() bool {
		end, err := k.BeginWrite(k.t.Context(), value)
		if err == nil {
			end()
		}
		return err != nil
	})
}

// until polls done: etcd does not announce its commits.
func (k *kept) until(what string, done func() bool) {
	k.t.Helper()
	err := wait.PollUntilContextTimeout(k.t.Context(), 10*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		k.t.Fatalf("wait until %s: %v", what, err)
	}
}

func one(int) string     { return "one" }
func many(i int) string  { return fmt.Sprintf("many-%d", i) }
func other(i int) string { return fmt.Sprintf("other-%d", i) }

// makeAttemptDue makes the keeper try to make room at its next check.
func (k *kept) makeAttemptDue() { k.lastAttempt = time.Now().Add(-time.Hour) }

func TestHistoryIsCompactedAtTheQuota(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 8*mib)
	k.fill(one)
	k.check(t.Context())
	if err := k.put(10, one); err != nil || k.Refusal() != "" || k.NearQuota() == false {
		t.Errorf("after a check: %v, %q, %t", err, k.Refusal(), k.NearQuota())
	}
	k.check(t.Context())
	for _, want := range []string{"the database is full (", "raise etcd.embedded.quotaBackend and restart", "writes are accepted again"} {
		if !strings.Contains(k.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, k.log)
		}
	}
}

func TestWritesAreRefusedWhileObjectsFillTheQuota(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	k := keep(t, dir, 8*mib)
	k.fill(many)
	k.check(t.Context())
	refused := func(k *kept) {
		t.Helper()
		if k.put(1, other) == nil || !strings.Contains(k.Refusal(), "raise etcd.embedded.quotaBackend and restart") {
			t.Errorf("a write is accepted, or the refusal lacks the remedy: %q", k.Refusal())
		}
		if got, err := k.member.Client().Get(t.Context(), many(50)); err != nil || len(got.Kvs) != 1 {
			t.Errorf("a read gets %v, %v", got, err)
		}
	}
	refused(k)
	k.stop()

	k = keep(t, dir, 8*mib) // a restart changes nothing
	k.check(t.Context())
	refused(k)
	before := k.log.Len()
	k.check(t.Context())
	if k.log.Len() != before {
		t.Errorf("the refusal is logged again:\n%s", k.log)
	}
	for _, prefix := range []string{"many-1", "many-2", "many-3", "many-4", "many-6", "many-7"} {
		if _, err := k.member.Client().Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
			t.Fatalf("deleting from a full database: %v", err)
		}
	}
	k.lastAttempt = time.Now()
	k.check(t.Context())
	refused(k) // the delay is not over
	k.makeAttemptDue()
	k.check(t.Context())
	if err := k.put(1, other); err != nil || k.Refusal() != "" {
		t.Errorf("after deletions: %v, %q\n%s", err, k.Refusal(), k.log)
	}
}

func TestLargerQuotaAcceptsWritesAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	k := keep(t, dir, 4*mib)
	k.fill(many)
	k.check(t.Context())
	k.stop()
	k = keep(t, dir, 1024*mib)
	if k.put(1, other) == nil {
		t.Fatal("the alarm does not outlive the process, so this test tests nothing")
	}
	k.check(t.Context())
	if err := k.put(1, other); err != nil {
		t.Error(err)
	}
}

func TestWritesAreRefusedOnAFullDisk(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 64*mib)
	k.free = 50 * mib
	k.check(t.Context())
	k.check(t.Context())
	if k.put(1, one) == nil || !strings.Contains(k.Refusal(), "has only 50 MiB left") {
		t.Errorf("a write is accepted, or the refusal lacks the remedy: %q", k.Refusal())
	}
	k.free = 100 * mib // above the limit of the refusal, below the one of its end
	k.check(t.Context())
	if k.put(1, one) == nil {
		t.Error("writes are accepted too early")
	}
	k.free = 200 * mib
	k.check(t.Context())
	if err := k.put(1, one); err != nil || k.Refusal() != "" {
		t.Errorf("with room, a write gets %v, the refusal is %q", err, k.Refusal())
	}
}

// TestDeletionsThatWriteOnAFullDisk: a deletion that stores its time passes etcd's alarm, and other writes
// do not, as long as half of the reserve is free.
func TestDeletionsThatWriteOnAFullDisk(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 64*mib)
	for free, want := range map[int64]bool{60 * mib: true, 20 * mib: false} {
		k.free = free
		k.check(t.Context())
		end, err := k.BeginWrite(t.Context(), -value)
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.member.Client().Put(t.Context(), "deleted", "now")
		end()
		if (err == nil) != want {
			t.Errorf("with %s free, the deletion gets %v", datadir.Size(free), err)
		}
		if k.put(1, one) == nil {
			t.Error("another write is accepted")
		}
		k.check(t.Context())
		if !k.config.Database.NoSpace() || k.Refusal() == "" {
			t.Error("writes are accepted after the deletion")
		}
	}
}

// fragment makes most of the database free, and returns what reports that it still
// is.
func (k *kept) fragment() (fragmented func() error) {
	k.t.Helper()
	if err := k.put(100, one); err != nil {
		k.t.Fatal(err)
	}
	if err := k.member.Compact(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	fragmented = func() error {
		if size, inUse, _ := k.member.Sizes(); inUse*2 > size {
			return fmt.Errorf("%d of %d bytes are in use", inUse, size)
		}
		return nil
	}
	// etcd updates the free size when it commits.
	k.until("the database is fragmented", func() bool {
		if _, err := k.member.Client().Put(k.t.Context(), "small", ""); err != nil {
			k.t.Fatal(err)
		}
		return fragmented() == nil
	})
	return fragmented
}

// TestLargeDatabaseIsDefragmentedInItsWindow: outside of the window, and without one, it stays fragmented,
// so that users do not wait at any hour. The metric, the log and the event have the duration.
func TestLargeDatabaseIsDefragmentedInItsWindow(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 64*mib)
	fragmented, open := k.fragment(), false
	k.config.MaximumInUse, k.nextDefragment = 1, time.Time{}
	for _, window := range []func(time.Time) bool{nil, func(time.Time) bool { return open }} {
		k.config.Window = window
		k.check(t.Context())
		if err := fragmented(); err != nil {
			t.Errorf("it is defragmented outside its window, or without one: %v", err)
		}
	}
	open = true
	k.check(t.Context())
	if err := fragmented(); err == nil {
		t.Error("it is not defragmented in its window")
	}
	if seconds := testutil.ToFloat64(k.metrics.defragmentSeconds); seconds <= 0 {
		t.Errorf("the metric is %v", seconds)
	}
	if text := k.log.String(); !regexp.MustCompile(`took=[\d.]+(ms|s)`).MatchString(text) {
		t.Errorf("the log has no duration: %s", text)
	}
}

func TestFragmentedDatabaseIsDefragmented(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 64*mib)
	k.config.Window = func(time.Time) bool { return false } // which is for large ones
	fragmented := k.fragment()
	k.check(t.Context())
	if err := fragmented(); err != nil {
		t.Errorf("it is defragmented right after the start: %v", err)
	}
	k.nextDefragment = time.Time{}
	k.free = mib
	k.check(t.Context())
	k.free = 1 << 40
	if err := fragmented(); err != nil {
		t.Errorf("it is defragmented on a full disk: %v", err)
	}
	k.check(t.Context()) // accepts writes again
	k.check(t.Context())
	size, _, _ := k.member.Sizes()
	if size > mib {
		t.Errorf("%d bytes are left", size)
	}
	got, err := k.member.Client().Get(t.Context(), "one")
	if err != nil || len(got.Kvs) != 1 {
		t.Errorf("it reads %v, %v", got, err)
	}
}

// TestFullDatabaseAcceptsDeletions: also before etcd raises its alarm.
func TestFullDatabaseAcceptsDeletions(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 4*mib)
	k.fill(many)
	if k.member.NoSpace() {
		t.Fatal("etcd has raised its alarm, so this test tests nothing")
	}
	if _, err := k.BeginWrite(k.t.Context(), value); err == nil || !strings.Contains(err.Error(), "raise etcd.embedded.quotaBackend and restart") {
		t.Errorf("a put gets %v", err)
	}
	end, err := k.BeginWrite(k.t.Context(), 0)
	if err != nil {
		t.Fatalf("a deletion gets %v", err)
	}
	end()
}

// TestDiskThatFillsFast: writes are refused between two checks, and the log is trimmed.
func TestDiskThatFillsFast(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 1024*mib)
	const free, reserve = 200 * mib, 96 * mib
	k.disk = func(string) (int64, int64, error) { return free - diskPerByte*k.member.Revision()*value, 1 << 40, nil }
	k.check(t.Context())
	if err := k.put(free/value, one); err == nil {
		t.Error("no write is refused")
	}
	if left, _, _ := k.disk(""); left < reserve-10*diskPerByte*value {
		t.Errorf("%d MiB are left, of %d", left/mib, reserve/mib)
	}
	end, err := k.BeginWrite(t.Context(), 0)
	if err != nil {
		t.Fatalf("a deletion gets %v", err)
	}
	end()
}

// TestWritesDuringADefragmentation: they wait for its end, and no longer than their context.
func TestWritesDuringADefragmentation(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 64*mib)
	gone := errors.New("the client has disconnected")
	for range 2 {
		before, err := k.BeginWrite(t.Context(), value)
		if err != nil {
			t.Fatal(err)
		}
		locked := make(chan error)
		go func() { locked <- k.writes.Acquire(t.Context(), allWrites) }()
		select {
		case <-locked:
			t.Fatal("the defragmentation does not wait for a write in flight")
		default:
		}
		before()
		if err := <-locked; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := k.BeginWrite(ctx, value)
			ended <- err
		}()
		cancel(gone)
		if err := <-ended; !errors.Is(err, gone) {
			t.Errorf("a write whose client has gone: %v", err)
		}
		written := make(chan error)
		go func() {
			end, err := k.BeginWrite(t.Context(), value)
			if err == nil {
				end()
			}
			written <- err
		}()
		select {
		case err := <-written:
			t.Fatalf("a write does not wait: %v", err)
		default:
		}
		k.writes.Release(allWrites)
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}

func TestDefragmentCommandNeedsDiskSpace(t *testing.T) {
	k := keep(t, filepath.Join(t.TempDir(), "etcd"), 64*mib)
	if err := k.put(20, many); err != nil {
		t.Fatal(err)
	}
	k.until("the size includes the writes", func() bool {
		size, _, _ := k.member.Sizes()
		return size >= mib
	})
	k.free = mib
	if _, err := k.Defragment(t.Context()); !errors.Is(err, ErrDisk) {
		t.Errorf("without room: %v", err)
	}
	_, inUse, _ := k.member.Sizes()
	k.free = inUse + mib
	if _, err := k.Defragment(t.Context()); err == nil || !strings.Contains(err.Error(), "needs "+datadir.Size(inUse+48*mib)) {
		t.Errorf("with room for the copy, but not for the reserve: %v", err)
	}
	k.free = 1 << 40
	// What was written last reaches the file with the first one.
	if _, err := k.Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, err := k.Defragment(t.Context())
	if err != nil || done.After > done.Before || done.Seconds <= 0 {
		t.Errorf("%+v, %v", done, err)
	}
}
