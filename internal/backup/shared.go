package backup

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// otherServers reports scheduled backups of other servers in the same directory, which
// [Prune] counts together with this server's. It is not safe for concurrent use.
type otherServers struct {
	dir string
	log *slog.Logger
	// since is when this server has started. Older backups may be its own: the volume may
	// be mounted later, or cannot be read at the start.
	since time.Time
	// known are the names of the scheduled backups that the first look into the directory
	// has found, and of those that this server has made; nil before that look.
	known    map[string]bool
	reported bool
}

func (a *Maker) otherServers() *otherServers {
	o := &otherServers{dir: a.config.Backup.Dir, log: a.log, since: time.Now()}
	o.unknown()
	return o
}

// unknown returns the names of the scheduled backups that are not known. The first look
// into the directory knows all of them. It returns none if the directory cannot be read,
// which the next backup reports.
func (o *otherServers) unknown() []string {
	entries, err := os.ReadDir(o.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	first := o.known == nil
	if first {
		o.known = map[string]bool{}
	}
	var names []string
	for _, e := range entries {
		at, scheduled := madeAt(e.Name(), ReasonScheduled)
		switch {
		case !scheduled || o.known[e.Name()]:
		case first:
			o.known[e.Name()] = true
		case at.After(o.since):
			names = append(names, e.Name())
		}
	}
	return names
}

// exclude adds a path that this server has made, or "".
func (o *otherServers) exclude(path string) {
	if o.known != nil {
		o.known[filepath.Base(path)] = true
	}
}

// report reports the first backup of another server that it finds.
func (o *otherServers) report(record Record) {
	const text = "another server makes scheduled backups in the same directory, and each removes the oldest of all: set backup.dir to a directory of its own"
	if o.reported {
		return
	}
	if names := o.unknown(); len(names) > 0 {
		o.reported = true
		o.log.Warn(text, "dir", o.dir, "file", names[0])
		record(corev1.EventTypeWarning, "BackupDirShared", "%s: %s", names[0], text)
	}
}
