package backup

import (
	"log/slog"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// otherServers reports scheduled backups of other servers in the same directory, which
// [Prune] counts together with this server's. It is not safe for concurrent use.
type otherServers struct {
	dir string
	log *slog.Logger
	// known are the names of the scheduled backups that this server has found at its start
	// or made; nil after a report.
	known map[string]bool
}

func (a *Archiver) otherServers() *otherServers {
	o := &otherServers{dir: a.config.Backup.Dir, log: a.log, known: map[string]bool{}}
	for _, name := range o.names() {
		o.known[name] = true
	}
	return o
}

// names returns the names of the scheduled backups in the directory; none if it cannot be
// read, which the next backup reports.
func (o *otherServers) names() []string {
	entries, _ := os.ReadDir(o.dir)
	var names []string
	for _, e := range entries {
		if _, ours := madeAt(e.Name(), ReasonScheduled); ours {
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
	for _, name := range o.names() {
		if o.known != nil && !o.known[name] {
			o.known = nil
			o.log.Warn(text, "dir", o.dir, "file", name)
			record(corev1.EventTypeWarning, "BackupDirShared", "%s: %s", name, text)
		}
	}
}
