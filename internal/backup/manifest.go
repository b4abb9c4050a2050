package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Format is the layout of backups that this release reads and writes.
const Format = 1

// The reasons for which backups are made.
const (
	// ReasonManual: a command or a request.
	ReasonManual = "manual"
	// ReasonScheduled: backup.schedule of the configuration.
	ReasonScheduled = "scheduled"
	// ReasonUpgrade: the start of another release.
	ReasonUpgrade = "before-upgrade"
	// ReasonArchive: the deletion of a control plane of a server.
	ReasonArchive = "archive"
	// ReasonJournal: it is a base of the journal.
	ReasonJournal = "continuous"
)

// ErrDamaged means that a backup differs from what was saved.
var ErrDamaged = errors.New("the backup is damaged")

// damaged wraps the reason in ErrDamaged.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// Manifest is the first entry of a backup.
type Manifest struct {
	// Format of the backup.
	Format int `json:"format"`
	// Created is the time, Host the machine and Reason one of the Reason constants.
	Created time.Time `json:"created"`
	Host    string    `json:"host"`
	Reason  string    `json:"reason"`
	// Chain is the ID of the chain that a base of a journal belongs to.
	Chain string `json:"chain,omitempty"`
	// ChainKey authenticates the end of that chain.
	ChainKey string `json:"chainKey,omitempty"`
	// Stamp has the versions that wrote the data; see [datadir.Stamp].
	Stamp datadir.Stamp `json:"data"`
	// Snapshot describes etcd/snapshot.db.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	// LeftOut are files with secrets that the options left out.
	LeftOut []string `json:"leftOut,omitempty"`
	// Files in the order in which they follow.
	Files []File `json:"files"`
}

// Snapshot describes a snapshot of etcd.
type Snapshot struct {
	// Revision of the last write in it.
	Revision int64 `json:"revision"`
	// SizeBytes of the database.
	SizeBytes int64 `json:"sizeBytes"`
	// SHA256 of the file, including the checksum at its end.
	SHA256 string `json:"sha256"`
	// Resources has the number of objects by "resource.group".
	Resources map[string]Count `json:"resources"`
}

// Count is the number of objects of a resource.
type Count struct {
	Objects int `json:"objects"`
	// Encrypted is the number of those that are encrypted.
	Encrypted int `json:"encrypted,omitempty"`
}

// File is an entry of a backup.
type File struct {
	Name      string `json:"name"`
	SizeBytes int64  `json:"sizeBytes"`
	SHA256    string `json:"sha256"`
}

// SnapshotName is the name of the snapshot of etcd in a backup.
const SnapshotName = "etcd/snapshot.db"

const (
	manifestName = "manifest.json"
	configName   = "config/config.yaml"
	// maxManifest bounds the size of a manifest, in bytes.
	maxManifest = 16 << 20
)

// directories are those that a backup may have.
var directories = []string{"etcd", "pki", "encryption", "config"}

// parseManifest decodes and checks a manifest. Its file names are safe to be joined to a
// directory.
func parseManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, damaged("%s: %w", manifestName, err)
	}
	if m.Format > Format {
		return nil, fmt.Errorf("the backup was written by kube-hyper-mini %s in format %d; this release reads up to "+
			"%d: use that release or a newer one", m.Stamp.Version, m.Format, Format)
	}
	if m.Format < 1 {
		return nil, damaged("%s has no format", manifestName)
	}
	seen := map[string]bool{}
	for _, file := range m.Files {
		dir, _, below := strings.Cut(file.Name, "/")
		if !below || !slices.Contains(directories, dir) || path.Clean(file.Name) != file.Name ||
			!filepath.IsLocal(filepath.FromSlash(file.Name)) {
			return nil, damaged("%s has the invalid file name %q", manifestName, file.Name)
		}
		if file.SizeBytes < 0 || seen[file.Name] {
			return nil, damaged("%s has two entries or a negative size for %q", manifestName, file.Name)
		}
		seen[file.Name] = true
	}
	if m.Snapshot == nil || !seen[SnapshotName] {
		return nil, damaged("%s has no snapshot of etcd", manifestName)
	}
	return m, nil
}

// Objects returns the number of objects.
func (m *Manifest) Objects() (n int) {
	for _, count := range m.Snapshot.Resources {
		n += count.Objects
	}
	return n
}
