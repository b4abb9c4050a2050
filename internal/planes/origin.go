package planes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// origin returns what a ControlPlane begins with: with deletion Archive, the newest archive of its
// name, unless from names a backup or a journal. So it comes back by undelete, or by its manifest.
func (m *Manager) origin(o *object) From {
	from := o.Spec.From
	if o.Spec.Deletion == deletionArchive && from.Backup == "" && from.Journal == "" {
		file, _, err := backup.Latest(BackupDir(m.config.Host, o.Name), backup.ReasonArchive)
		if err != nil || file != "" { // restore reports the error
			return From{Backup: path.Join(o.Name, filepath.Base(file))}
		}
	}
	return from
}

// isUnfilled reports whether the directory of a ControlPlane is yet to be filled.
func (m *Manager) isUnfilled(o *object) bool { return !o.Status.Made && m.origin(o) != From{} }

// fillPrefix is that of directories that are being filled.
const fillPrefix = ".copy-"

// filled are the entries of a data directory that a new control plane takes. It makes
// authorities and keys of service accounts of its own.
var filled = []string{"lock", "version.json", "encryption", "etcd"}

// fill makes the directory of a new control plane from its origin.
func (c *controller) fill(ctx context.Context, o *object) (err error) {
	dir, target := filepath.Join(c.dir(), o.Name), filepath.Join(c.dir(), fillPrefix+o.Name)
	if _, err := os.Stat(dir); err == nil {
		return nil // it was filled before a crash
	}
	if err := errors.Join(os.RemoveAll(target), os.MkdirAll(target, 0o700)); err != nil {
		return err
	}
	from := c.origin(o)
	if from.ControlPlane != "" {
		err = c.copy(ctx, from.ControlPlane, target)
	} else {
		err = c.restore(ctx, from, target)
	}
	if err == nil {
		err = markCopied(target)
	}
	if err == nil {
		err = syncTree(target)
	}
	if err == nil {
		err = datadir.Rename(target, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(target))
	}
	return nil
}

// markCopied has the first start make authorities and keys, also if it is interrupted.
func markCopied(dir string) error {
	stamp, err := datadir.ReadStamp(dir)
	if err != nil || stamp == nil || stamp.FirstStart != "" { // the first start of the origin is not finished
		return err
	}
	stamp.FirstStart = datadir.Copied
	return datadir.WriteStampFile(dir, *stamp)
}

// copy fills a directory from another control plane, which it puts to sleep first.
func (c *controller) copy(ctx context.Context, from, target string) (err error) {
	defer func() {
		if err = sourceError(err, from, anotherOrigin); err != nil {
			err = fmt.Errorf("copy the control plane %s: %w", from, err)
		}
	}()
	source, err := c.plane(from)
	if err != nil {
		return err
	}
	if err := source.startOnce(ctx); err != nil {
		return err
	}
	release, err := source.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	dir, err := datadir.Lock(source.dir()) // a restore of it may run, or was interrupted
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	for _, name := range filled {
		err := datadir.CopyTree(ctx, filepath.Join(source.dir(), name), filepath.Join(target, name))
		if err != nil && (name != "encryption" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// startOnce starts a control plane that was never started: it has no data before, and not its CRDs.
func (p *plane) startOnce(ctx context.Context) error {
	p.mu.Lock()
	started := p.made && (p.definitions != "" || len(p.spec.CRDs.ConfigMaps) == 0 && p.spec.CRDs.ControlPlane == "")
	p.mu.Unlock()
	if started {
		return nil
	}
	server, done, err := p.useAsSource(ctx)
	if err != nil {
		return err
	}
	defer done()
	client, err := newRevisions(server)
	if err != nil {
		return err
	}
	// Its controllers write its first objects. Log lines say what a stop interrupts.
	last := ""
	return wait.PollUntilContextTimeout(ctx, firstWrites, sourceTimeout, true, func(ctx context.Context) (bool, error) {
		current, err := client.current(ctx)
		written := current != last
		last = current
		return !written, err
	})
}

// firstWrites is the time without a write after which a new control plane has its first objects.
const firstWrites = time.Second

// sourceTimeout bounds the time in which a control plane that another one is made from starts: two
// that are new may wait for one another.
const sourceTimeout = 30 * time.Second

// useAsSource is use for another control plane that is made from this one, and returns the server.
func (p *plane) useAsSource(ctx context.Context) (server *controlplane.ControlPlane, done func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sourceTimeout, errors.New("it does not start"))
	defer cancel()
	_, done, err = p.use(ctx, func() bool { return true })
	switch {
	case err == nil:
	case err == errNotFound, err == errNotRunning, ctx.Err() != nil: //nolint:errorlint // not those in its reason
		return nil, nil, err
	default: // its reason may be that of the other one
		return nil, nil, fmt.Errorf("it does not start: kubectl get controlplane %s -o wide says why", p.name)
	}
	p.mu.Lock()
	server = p.server
	p.mu.Unlock()
	if server == nil { // it has ended by itself
		done()
		return nil, nil, errNotRunning
	}
	return server, done, nil
}

// anotherOrigin is the advice for an origin that will not exist.
const anotherOrigin = "delete this ControlPlane and make another, as spec.from cannot change"

// sourceError explains why the control plane name cannot be copied. otherwise is what the user can
// do instead of creating it. The error leaves out the reason for which name is not made: that may
// be this error, which would grow with each retry.
func sourceError(err error, name, otherwise string) error {
	switch {
	case errors.Is(err, errNotFound):
		return errors.New("there is no such control plane: create it, or " + otherwise)
	case errors.Is(err, errNotMade):
		return errors.New("it is not made yet: kubectl get controlplane " + name + " -o wide says why")
	}
	return err
}

// restore fills a directory from a backup or a journal.
func (m *Manager) restore(ctx context.Context, from From, target string) (err error) {
	host := m.config.Host
	source := journal.RestoreConfig{Key: backup.Key{IdentityFile: host.Planes.IdentityFile},
		Target: journal.Target{At: from.At.Time}, Say: func(string, ...any) {}}
	if from.Backup != "" {
		if source.File, err = backupBelow(BackupDir(host, ""), from.Backup); err != nil {
			return err
		}
	} else if source.Store, err = parts.JournalLocation(host, JournalLocation(host, from.Journal)).Open(); err != nil {
		return err
	}
	cfg := configuration(host, "", "", Spec{})
	cfg.DataDir = target
	_, err = parts.Restore(ctx, cfg, warningsOf(m.config.Log, filepath.Base(target)), source)
	if errors.Is(err, backup.ErrEncrypted) {
		return fmt.Errorf("the backup %s is encrypted: set planes.identityFile in the configuration of the server: %w",
			from.Backup+from.Journal, err)
	}
	if err != nil && from.Journal != "" {
		return fmt.Errorf("begin with the journal %s: %w; if it will not exist, %s", from.Journal, err, anotherOrigin)
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(target)
	for _, entry := range entries {
		if !slices.Contains(filled, entry.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(target, entry.Name())))
		}
	}
	return err
}

// named are the reasons of the backups from which backupBelow takes the newest in a directory.
var named = []string{backup.ReasonManual, backup.ReasonScheduled, backup.ReasonUpgrade, backup.ReasonArchive}

// backupBelow returns the backup at a path below dir: the file, or the newest in the directory.
func backupBelow(dir, name string) (string, error) {
	if !isBelow(name) {
		return "", fmt.Errorf("the backup %q is not below planes.backupDir", name)
	}
	file := filepath.Join(dir, name)
	info, err := os.Stat(file)
	if err == nil && info.IsDir() {
		file, _, err = backup.Latest(file, named...)
	}
	switch {
	case err == nil && file == "":
		return "", fmt.Errorf("the directory %q below planes.backupDir, which is %s, has no file that is named as the "+
			"server names backups: one of %s, then -20260101T030000Z.tar.gz or -20260101T030000Z.tar.gz.age; rename one so, "+
			"or make another ControlPlane whose spec.from.backup names the file, as %s/FILE", name, dir,
			strings.Join(named, ", "), name)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no backup %q below planes.backupDir, which is %s: put it there, "+
			"or correct spec.from.backup of a new ControlPlane", name, dir)
	case err != nil:
		return "", fmt.Errorf("find the backup %q: %w", name, err)
	}
	return file, nil
}

// syncTree has all files below the directory on the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return datadir.SyncDir(path)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(datadir.Sync(file), file.Close())
	})
}
