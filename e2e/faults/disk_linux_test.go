package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// mayMount reports whether the test runs in a mount namespace of its own, see
// [harness.InNamespaces]. Where that is not permitted, TestFileSizeLimit remains.
func mayMount(t *testing.T) bool {
	t.Helper()
	return harness.InNamespaces(t, 0)
}

// disk is a small file system on which a server runs.
type disk struct {
	t    *testing.T
	path string
}

func newDisk(t *testing.T, megabytes int) *disk {
	t.Helper()
	d := &disk{t, t.TempDir()}
	harness.MountTmpfs(t, d.path, fmt.Sprintf("size=%dm", megabytes))
	t.Cleanup(func() {
		if err := syscall.Unmount(d.path, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *disk) filler() string { return filepath.Join(d.path, "filler") }

// leave fills the disk until the given number of bytes is free.
func (d *disk) leave(bytes int64) {
	d.t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(d.path, &fs); err != nil {
		d.t.Fatal(err)
	}
	f, err := os.Create(d.filler())
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only its size matters
	// In pieces: other processes write too.
	at, end := int64(0), int64(fs.Bavail)*fs.Bsize-bytes
	for piece := int64(16 << 20); piece >= fs.Bsize; {
		if at+piece > end && bytes > 0 || syscall.Fallocate(int(f.Fd()), 0, at, piece) != nil {
			piece /= 2
			continue
		}
		at += piece
	}
}

// free removes the file of leave.
func (d *disk) free() {
	d.t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		d.t.Fatal(err)
	}
}

// remount changes what may be done with the disk.
func (d *disk) remount(flags uintptr) {
	d.t.Helper()
	if err := syscall.Mount("", d.path, "", syscall.MS_REMOUNT|flags, ""); err != nil {
		d.t.Fatal(err)
	}
}

// TestFullDisk: what was acknowledged is there, the error is clear, and the
// server continues when there is room.
func TestFullDisk(t *testing.T) {
	if !mayMount(t) {
		return
	}
	d := newDisk(t, 400)
	s := newSite(t, harness.Options{Dir: filepath.Join(d.path, "data")}, 3, 1)
	server := s.start()

	// The disk fills slowly: the server refuses writes before it is full.
	d.leave(20 << 20)
	harness.Eventually(t, "writes are refused", func() error {
		if err := put(t, server, "refused"); !refused(err) || !strings.Contains(err.Error(), "the disk of "+s.options.Dir) {
			return fmt.Errorf("a write gets %w", err)
		}
		return nil
	})
	if _, err := s.maps.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a read gets %v", err)
	}
	healthy(t, server, "/livez")
	harness.Contains(t, server.Status(), "ready", "read-only", "the disk of")
	d.free()
	harness.Eventually(t, "writes are accepted again", func() error { return put(t, server, "taken") })
	server.WaitLog("writes are accepted again")

	// The disk fills at once, under load: etcd fails, or the server refuses
	// writes first.
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		wait := s.write(ctx)
		d.leave(0)
		endsOrRefuses(t, server)
		cancel()
		wait()
		// A server that is started on the full disk fails in the same way.
		endsOrRefuses(t, harness.LaunchWith(t, s.options))
		d.free()
		server = s.start()
		s.check()
	}

	// The same for a disk that cannot be written to at all.
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	d.remount(syscall.MS_RDONLY)
	ends(t, harness.LaunchWith(t, s.options), s.options.Dir, "read-only file system")
	d.remount(0)
	s.start()
	s.check()
}

// TestFullBackupDisk: a backup without room is reported and leaves no file, the
// server continues, and backups succeed again when there is room.
func TestFullBackupDisk(t *testing.T) {
	if !mayMount(t) {
		return
	}
	d := newDisk(t, 64)
	d.leave(0)
	dir := filepath.Join(d.path, "journals")
	s := newSite(t, harness.Options{Args: []string{"--config", harness.ConfigFile(t, fmt.Sprintf("backup: {schedule: '@every 1s', keep: 2, dir: %q}\n", dir))}}, 2, 1)
	server := s.start()
	ctx, cancel := context.WithCancel(t.Context())
	wait := s.write(ctx)
	server.WaitLog("scheduled backup failed")
	harness.Contains(t, server.Status(), "FAILED", dir)
	cancel()
	wait()
	s.check()
	d.free()
	server.WaitLog("backup made")
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 || len(entries) > 3 { // the oldest one may not have gone yet
		t.Errorf("there are %v, %v", entries, err)
	}
	for _, entry := range entries {
		harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "inspect", filepath.Join(dir, entry.Name())), "objects")
	}
}

// TestFullDiskOfPlanes: on a full disk control planes refuse writes, or do not start, with the
// reason. The server goes on, reads are answered, and nothing is lost.
func TestFullDiskOfPlanes(t *testing.T) {
	if !mayMount(t) {
		return
	}
	d := newDisk(t, 600)
	args := []string{"--config", harness.ConfigFile(t, "planes: {enabled: true, sleepAfter: 1h}\n")}
	s := harness.StartIn(t, filepath.Join(d.path, "data"), args...)
	objects := s.Dynamic().Resource(controlPlanes)
	names := []string{"used", "asleep", "new"}
	for _, name := range names {
		o := newPlane(name, "")
		if name == "asleep" {
			o.Object["spec"] = map[string]any{"sleepAfter": "1s"}
		}
		if _, err := objects.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if name != "new" { // which is not started yet
			eventuallyPut(t, s, name, "before")
		}
	}
	s.Await("jsonpath={.status.phase}=Asleep", "controlplane/asleep")

	d.leave(30 << 20) // less than the reserve
	for _, name := range names[:2] {
		maps := planeOf(t, s, name)
		harness.Eventually(t, "a write in "+name+" is refused", func() error {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-"}}
			_, err := maps.Create(t.Context(), o, metav1.CreateOptions{})
			if !refused(err) || !strings.Contains(err.Error(), "the disk of "+filepath.Join(s.Dir, "planes", name)) {
				return fmt.Errorf("a write gets %w", err)
			}
			return nil
		})
		if _, err := maps.Get(t.Context(), "before", metav1.GetOptions{}); err != nil {
			t.Errorf("a read in %s gets %v", name, err)
		}
	}
	_, err := planeOf(t, s, "new").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "the disk of ") {
		t.Errorf("the first start gets %v", err)
	}
	harness.Eventually(t, "the creation of another one is refused", func() error {
		o := newPlane("", "")
		o.SetGenerateName("another-")
		if _, err := objects.Create(t.Context(), o, metav1.CreateOptions{}); !refused(err) {
			return fmt.Errorf("it gets %w", err)
		}
		return nil
	})
	healthy(t, s, "/livez")
	d.free()
	for _, name := range names {
		eventuallyPut(t, s, name, "between")
	}

	d.leave(0) // at once: each etcd fails, or refuses writes first
	endsOrRefuses(t, s)
	d.free()
	s = harness.StartIn(t, s.Dir, args...)
	for _, name := range names {
		eventuallyPut(t, s, name, "after")
		if _, err := planeOf(t, s, name).Get(t.Context(), "between", metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
}

// endsOrRefuses waits until the server has failed on the full disk or refuses
// writes, and ends it.
func endsOrRefuses(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, "the server ends or refuses", func() error {
		if s.Running() && !refused(put(t, s, "either")) {
			return errors.New("it writes, or hangs")
		}
		return nil
	})
	if s.Running() {
		_ = syscall.Kill(s.PID(), syscall.SIGKILL) // a write in flight may still fail and end the server first
		s.Wait()
		return
	}
	ends(t, s, "no space left on device")
}

// TestFileSizeLimit: a failed write ends etcd and the process, and loses
// nothing.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	const blocks = 20 << 20 / 512 // the file of the database grows beyond it
	limited := harness.Options{Wrap: []string{"sh", "-c", fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, blocks)}}
	s := newSite(t, limited, 2, 1)
	server := s.start()
	wait := s.write(t.Context())
	for i := 0; server.Running(); i++ {
		_ = put(t, server, fmt.Sprintf("fill-%d", i)) // the last one fails
	}
	wait()
	ends(t, server, "etcd ended: ", "file too large")
	s.options.Wrap = nil
	s.start()
	s.check()
}

// TestFullJournalDisk: while the disk of the journal is full the server goes on and reports
// it. When there is room the journal catches up, in the same chain.
func TestFullJournalDisk(t *testing.T) {
	if !mayMount(t) {
		return
	}
	d := newDisk(t, 32)
	destination := filepath.Join(d.path, "journal")
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, interval: 100ms}\n", destination)))
	caughtUp := func() {
		t.Helper()
		harness.Eventually(t, "the journal has everything", func() error {
			if a := journalOf(t, s); a.Chain == 0 || a.LagRevisions != 0 || a.LagSeconds != 0 || a.Error != "" {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
	}
	caughtUp()
	d.leave(0)
	names := []string{"one", "two"}
	for _, name := range names {
		if err := put(t, s, name); err != nil {
			t.Fatal(err)
		}
	}
	s.WaitLog("the journal lags behind")
	harness.Contains(t, s.Status(), "FAILED: journal to "+destination, "no space left on device", "make room", "in the spool")
	d.free()
	s.WaitLog("the journal works again")
	caughtUp()
	if a := journalOf(t, s); a.Chain != 1 {
		t.Errorf("after it: %+v", a)
	}
	s.Kill()
	restored := filepath.Join(t.TempDir(), "restored")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", restored, "--from", destination), "restored "+restored)
	again := harness.StartIn(t, restored)
	for _, name := range names {
		if _, err := again.Client().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// journalAccount is the part of a status about the journal.
type journalAccount struct {
	Chain        int
	LagSeconds   float64
	LagRevisions int64
	Error        string
}

func journalOf(t *testing.T, s *harness.Server) journalAccount {
	t.Helper()
	var status struct{ Journal journalAccount }
	if err := json.Unmarshal([]byte(s.Status("-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	return status.Journal
}
