package backup

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestRestoreWithAMountInside: a restore that would have to move a mount point is refused
// before it moves anything, and works when the volume is unmounted.
func TestRestoreWithAMountInside(t *testing.T) {
	if !harness.InNamespaces(t, 0) {
		return
	}
	for name, mount := range map[string]func(t *testing.T, dir string){
		"another file system": func(t *testing.T, dir string) { harness.MountTmpfs(t, dir, "mode=0700") },
		"the same file system": func(t *testing.T, dir string) {
			if err := unix.Mount(t.TempDir(), dir, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			volume := filepath.Join(dir, "etcd")
			if err := os.MkdirAll(volume, 0o700); err != nil {
				t.Fatal(err)
			}
			mount(t, volume)
			t.Cleanup(func() { _ = unix.Unmount(volume, unix.MNT_DETACH) }) // the test may have done it
			s := harness.StartIn(t, dir)
			create(t, s, "before")
			secret(t, s)
			archive := filepath.Join(t.TempDir(), "archive.tar.gz")
			harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", dir, archive)
			create(t, s, "after")
			s.Stop()

			out := harness.Runs(t, harness.ExitFailure, "backup", "restore", "--data-dir", dir, archive)
			harness.Contains(t, out, volume, "mount point", "unmount it")
			s = harness.StartIn(t, dir)
			reads(t, s, "after")
			s.Stop()
			if err := unix.Unmount(volume, 0); err != nil {
				t.Fatal(err)
			}
			harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", dir, archive)
			reads(t, harness.StartIn(t, dir), "before")
		})
	}
}
