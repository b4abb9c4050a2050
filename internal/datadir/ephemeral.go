package datadir

import (
	"errors"
	"fmt"
	"os"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
)

// ephemeralMark is the file in a data directory whose content is removed when its
// server ends. It is made first and removed last.
const ephemeralMark = "ephemeral"

// OpenEphemeral is [Open] for a server whose data is not kept: Close removes it. The
// directory must be new or empty. What such a server that was killed has left is
// removed.
func OpenEphemeral(path string, current Stamp, named ...string) (*Dir, error) {
	d, err := Lock(path, named...)
	if err != nil {
		return nil, err
	}
	if err := d.beginEphemeral(); err != nil {
		return nil, errors.Join(err, d.Abandon())
	}
	if err := d.checkRelease(current); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// beginEphemeral marks the empty directory.
func (d *Dir) beginEphemeral() error {
	found, err := survey(d.path)
	if err != nil {
		return fmt.Errorf("look at the data directory: %w", err)
	}
	marked, err := Exists(d.Join(ephemeralMark))
	if err != nil {
		return notWritable(d.path, err)
	}
	used := append(found.Backups, found.Removed...)
	if !marked && (len(used) > 1 || len(used) == 1 && used[0] != "lock") {
		return fmt.Errorf("the data directory %s has data (%s), which --ephemeral would remove at the end: choose an "+
			"empty or a new directory with --data-dir", d.path, JoinFirst(used))
	}
	if err := d.removeData(); err != nil {
		return fmt.Errorf("remove what a killed server with --ephemeral has left in %s: %w", d.path, err)
	}
	if err := os.WriteFile(d.Join(ephemeralMark), nil, 0o600); err != nil {
		return notWritable(d.path, err)
	}
	d.ephemeral = true
	return nil
}

// refuseEphemeral returns an error if the next server with --ephemeral would remove the
// data.
func (d *Dir) refuseEphemeral() error {
	marked, err := Exists(d.Join(ephemeralMark))
	if marked {
		err = fmt.Errorf("the data directory %s was left by a server with --ephemeral that was killed: remove it "+
			"(kube-hyper-mini reset), start with --ephemeral again, or choose another directory with "+
			"--data-dir", d.path)
	}
	return err
}

// closeEphemeral removes the content of an ephemeral directory, unlocks it, and removes
// the directory if Lock has made it.
func (d *Dir) closeEphemeral() error {
	d.ephemeral = false
	// The files are removed under etcd if it hangs, because nothing else removes them.
	lifecycle.WaitAtMost(&d.uses, RemovalTimeout)
	if err := d.removeData(); err != nil {
		return errors.Join(fmt.Errorf("remove the data of %s: %w", d.path, err), d.Close())
	}
	if d.made {
		return d.Abandon()
	}
	return d.closeAndRemove("lock")
}

// RemovalTimeout bounds the wait for etcd before files are removed that it uses. etcd takes
// longer to open a large database, and may hang when it is closed.
const RemovalTimeout = 5 * time.Second

// removeData removes the content except the lock.
func (d *Dir) removeData() error {
	found, err := survey(d.path)
	if err != nil {
		return err
	}
	return removeAll(d.path, append(found.Backups, found.Removed...))
}
