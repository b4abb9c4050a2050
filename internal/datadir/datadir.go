package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/version"
)

// Format is the layout that this release reads and writes. It is increased when older
// releases cannot use the directory any more.
const Format = 1

// ErrLocked means that another process holds the directory.
var ErrLocked = errors.New("the data directory is in use")

// Stamp is the content of version.json.
type Stamp struct {
	// Format of the directory's layout.
	Format int `json:"format"`
	// Version is the release that wrote it last.
	Version string `json:"version"`
	// Kubernetes and Etcd are the library versions of that release.
	Kubernetes string `json:"kubernetes"`
	Etcd       string `json:"etcd"`
	// FirstStart is "unfinished" from the beginning of the first start until
	// the store and the identity are complete. Nothing has been served then. It is [Copied]
	// until then in a directory that has the store of another one.
	FirstStart string `json:"firstStart,omitempty"`
}

// unfinished is the value of [Stamp.FirstStart].
const unfinished = "unfinished"

// Copied is the value of [Stamp.FirstStart] for a directory with the store of another one: its
// first start makes an identity.
const Copied = "copied"

// String returns the versions of the release and of its libraries.
func (s Stamp) String() string {
	parts := []string{fmt.Sprintf("format %d", s.Format)}
	if s.Kubernetes != "" {
		parts = append(parts, "Kubernetes "+s.Kubernetes)
	}
	if s.Etcd != "" {
		parts = append(parts, "etcd "+s.Etcd)
	}
	return fmt.Sprintf("%s (%s)", s.Version, strings.Join(parts, ", "))
}

// NewerThan returns whether s has a higher format, or a higher minor release of
// Kubernetes or etcd, than other: other's release may not be able to read the data.
func (s Stamp) NewerThan(other Stamp) bool {
	return s.Format > other.Format || minorAfter(s.Kubernetes, other.Kubernetes) || minorAfter(s.Etcd, other.Etcd)
}

// CheckSkip returns an error when s comes two or more minor releases of
// Kubernetes or etcd after previous. Upstream converts stored data from the
// minor release before only.
func (s Stamp) CheckSkip(previous Stamp) error {
	for _, pair := range []struct{ name, from, to string }{
		{"Kubernetes", previous.Kubernetes, s.Kubernetes},
		{"etcd", previous.Etcd, s.Etcd},
	} {
		from, err := version.ParseGeneric(pair.from)
		if err != nil || from.Major() == 0 {
			continue // a build without this version
		}
		to, err := version.ParseGeneric(pair.to)
		if err == nil && (to.Major() != from.Major() || to.Minor() > from.Minor()+1) && to.GreaterThan(from) {
			return fmt.Errorf("this is %s, which skips a minor release of %s (from %s to %s): run a release of each "+
				"minor version between them once", s, pair.name, pair.from, pair.to)
		}
	}
	return nil
}

// minorAfter compares major and minor. What is not a version is not after.
func minorAfter(a, b string) bool {
	left, err := version.ParseGeneric(a)
	if err != nil {
		return false
	}
	right, err := version.ParseGeneric(b)
	return err == nil && left.WithPatch(0).WithPreRelease("").GreaterThan(right.WithPatch(0).WithPreRelease(""))
}

// Dir is a data directory whose lock this process holds.
type Dir struct {
	path string
	lock *os.File
	made bool // by Lock
	// Previous is the stamp found at Open; nil in a new directory.
	Previous *Stamp
	// Interrupted means that the first start was interrupted before anything was
	// served: the data of the store can be created again.
	Interrupted bool
	// ephemeral: Close removes the content.
	ephemeral bool
	uses      sync.WaitGroup // calls of Use without release
	users     atomic.Int32   // their number; 1 less after Close

	written Stamp // the last one that was written
}

// Open makes the directory where it does not exist, takes its lock and reads its stamp.
// It refuses a directory that is in use (ErrLocked), that cannot be written, or that has
// a newer format. It refuses a new directory with files that are not of the layout
// (ErrNotDataDir), unless the configuration names them, as absolute paths. It writes only
// the directory itself and the lock file.
func Open(path string, current Stamp, named ...string) (*Dir, error) {
	d, err := Lock(path, named...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.refuseEphemeral(), d.checkRelease(current)); err != nil {
		return nil, errors.Join(err, d.Abandon())
	}
	return d, nil
}

func notWritable(path string, err error) error {
	if info, statErr := os.Stat(path); statErr == nil && !info.IsDir() {
		return fmt.Errorf("the data directory %s is a file: remove it, or choose another with --data-dir", path)
	}
	return fmt.Errorf("the data directory %s cannot be used: %w; make it writable for this user or choose another "+
		"with --data-dir", path, err)
}

func holder(path string) string {
	data, err := os.ReadFile(filepath.Join(path, "lock"))
	if pid := strings.TrimSpace(string(data)); err == nil && pid != "" {
		return "the server with process id " + pid
	}
	return "another server"
}

// checkRelease writes the process id into the lock file and compares the stamps.
func (d *Dir) checkRelease(current Stamp) error {
	if err := d.lock.Truncate(0); err != nil {
		return notWritable(d.path, err)
	}
	if _, err := d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return notWritable(d.path, err)
	}
	if err := CheckAccess(d.path); err != nil {
		return err
	}
	previous, err := ReadStamp(d.path)
	if err != nil {
		return err
	}
	if previous != nil && previous.FirstStart == unfinished {
		d.Interrupted = true
		return nil
	}
	if previous != nil && previous.NewerThan(current) {
		return fmt.Errorf("the data directory %s was written by kube-hyper-mini %s; this is %s, which cannot read "+
			"it: run the newer release; or go back with `kube-hyper-mini backup restore --data-dir %[1]s` to the backup that "+
			"it made before it took the directory over (before-upgrade-*, see `kube-hyper-mini backup list`); or choose "+
			"another directory with --data-dir",
			d.path, previous, current)
	}
	if previous != nil {
		if err := current.CheckSkip(*previous); err != nil {
			return fmt.Errorf("the data directory %s was written by kube-hyper-mini %s: %w", d.path, previous, err)
		}
	}
	d.Previous = previous
	return nil
}

// BeginFirstStart marks a new directory, which distinguishes an interrupted start from
// damage. It does not mark a directory with data of a store, which the user has put
// there. Call it before anything else is written.
func (d *Dir) BeginFirstStart(stamp Stamp) error {
	if d.Previous != nil || d.Interrupted {
		return nil
	}
	if _, err := os.Lstat(d.Join("etcd")); err == nil {
		return nil
	}
	stamp.FirstStart = unfinished
	return WriteStampFile(d.path, stamp)
}

// RequireUsed returns an error for a directory that no server has used: nil,
// ErrNotDataDir with the reason, or os.ErrNotExist.
func RequireUsed(path string) error {
	if err := Removable(path); err != nil {
		return err
	}
	stamp, err := ReadStamp(path)
	if err != nil {
		return err
	}
	if stamp == nil || stamp.FirstStart == unfinished {
		return fmt.Errorf("%s has no data yet: its first start did not finish", path)
	}
	return nil
}

// ReadStamp returns the stamp of the directory, or nil when it has none.
func ReadStamp(path string) (*Stamp, error) {
	file := filepath.Join(path, "version.json")
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the version stamp: %w", err)
	}
	stamp := &Stamp{}
	if err := json.Unmarshal(data, stamp); err != nil || stamp.Format < 1 {
		return nil, fmt.Errorf("the version stamp %s is not readable (%q): remove it, and start the release that was "+
			"used last, which writes it; or choose another directory with --data-dir", file, data)
	}
	return stamp, nil
}

// WriteStamp records that this release has taken the directory over. Call it when the
// store and the identity are complete and accepted, before this release writes objects:
// releases that cannot read those must refuse the directory, also if this one does not
// become ready.
func (d *Dir) WriteStamp(stamp Stamp) error {
	if d.Previous != nil && *d.Previous == stamp || d.written == stamp {
		return nil
	}
	if err := WriteStampFile(d.path, stamp); err != nil {
		return err
	}
	d.written = stamp
	return nil
}

// WriteStampFile puts a stamp into a directory that is about to become a data
// directory.
func WriteStampFile(dir string, stamp Stamp) error {
	return WriteJSON(filepath.Join(dir, "version.json"), stamp)
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// LockID names the lock that this process holds: a process that has held a lock of the same
// ID has ended, or closed the directory. It is empty on systems other than Linux. A copy of
// the directory, and the directory after a boot, have another ID.
func (d *Dir) LockID() string { return lockID(d.lock) }

// Join returns a path inside the directory.
func (d *Dir) Join(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Abandon is Close after a failure. It removes the directory if [Lock] has made it and it
// holds nothing but the lock. The errors are those of removing it and of Close.
func (d *Dir) Abandon() error {
	entries, err := os.ReadDir(d.path)
	if err != nil || !d.made || len(entries) != 1 {
		return errors.Join(err, d.Close())
	}
	return d.closeAndRemove("lock", "")
}

// closeAndRemove closes the directory and removes entries in it, "" for itself, before
// another process can lock it. On Windows, what is open cannot be removed.
func (d *Dir) closeAndRemove(names ...string) error {
	remove := func() (err error) {
		for _, name := range names {
			err = errors.Join(err, removeIfExists(d.Join(name)))
		}
		return err
	}
	if runtime.GOOS == "windows" {
		return errors.Join(d.Close(), remove())
	}
	return errors.Join(remove(), d.Close())
}

// Use keeps the directory locked until release is called, also after Close: for work on
// its files that a stop does not wait for. Do not call it after Close.
func (d *Dir) Use() (release func()) {
	d.users.Add(1)
	d.uses.Add(1)
	return sync.OnceFunc(func() {
		_ = d.unlock() // an error would be that of closing a file to which nothing is written
		d.uses.Done()
	})
}

// Close releases the lock, which [Dir.Use] may still hold. After
// [OpenEphemeral], it removes the content first, for which it waits for the uses, at most
// for [RemovalTimeout].
func (d *Dir) Close() error {
	if d.ephemeral {
		return d.closeEphemeral()
	}
	return d.unlock()
}

// unlock releases the lock when Close and all uses have called it.
func (d *Dir) unlock() error {
	if d.users.Add(-1) >= 0 {
		return nil
	}
	heldHere.Delete(absolute(d.path))
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("unlock the data directory %s: %w", d.path, err)
	}
	return nil
}
