package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Source is what an archive is made of.
type Source struct {
	// DataDir has the identity. Snapshots are copied below it.
	DataDir string
	// Stamp is what wrote the data.
	Stamp datadir.Stamp
	// Snapshot opens a stream as etcd's Maintenance.Snapshot gives it; nil
	// for a bundle.
	Snapshot func(context.Context) (io.ReadCloser, error)
	// Prefix of the API servers' keys.
	Prefix string
	// Config is the effective configuration.
	Config []byte
	// ConfigFiles are the files that it names, by field.
	ConfigFiles map[string]string
	// Spooled, unless it is nil, is called once when all that the archive needs
	// is at hand, before the first byte is written.
	Spooled func()
}

// Options say what goes in.
type Options struct {
	// Reason is one of the Reason constants.
	Reason string
	// Chain is the ID of the chain for a base of a continuous archive.
	Chain string
	// WithoutKeys leaves out every file that holds a secret.
	WithoutKeys bool
}

// entry is a file on its way into an archive.
type entry struct {
	File
	content []byte
	path    string // instead of content
}

// Write writes an archive. Nothing is written before everything in it is at
// hand, so that what can fail fails before the first byte; a failure after it
// leaves a stream that [Read] refuses.
func Write(ctx context.Context, w io.Writer, source Source, options Options) (*Manifest, error) {
	m := &Manifest{Format: Format, Created: time.Now().UTC().Truncate(time.Second), Reason: options.Reason, Chain: options.Chain, Stamp: source.Stamp}
	if host, err := os.Hostname(); err == nil { // a machine without a name has backups too
		m.Host = host
	}
	var entries []entry
	if source.Snapshot != nil {
		spooled, snapshot, err := spoolBelow(ctx, source)
		if err != nil {
			return nil, err
		}
		// SweepSpool takes what stays, and the directory may be in use by others.
		defer func() { _, _ = os.Remove(spooled.path), os.Remove(filepath.Dir(spooled.path)) }()
		entries, m.Snapshot = append(entries, spooled), snapshot
	}
	small, leftOut, err := identityEntries(source, options.WithoutKeys)
	if err != nil {
		return nil, err
	}
	entries, m.LeftOut = append(entries, small...), leftOut
	for _, e := range entries {
		m.Files = append(m.Files, e.File)
	}
	if source.Spooled != nil {
		source.Spooled()
	}
	if err := writeArchive(ctx, w, m, entries); err != nil {
		return nil, fmt.Errorf("write the archive: %w", err)
	}
	return m, nil
}

// spoolDir is where snapshots are copied to, below the data directory.
const spoolDir = "snapshot.tmp"

// SpoolDir is the directory for copies of etcd's data on their way into an
// archive.
func SpoolDir(dataDir string) string { return filepath.Join(dataDir, spoolDir) }

// SweepSpool removes copies that a server left when it was killed. Call it
// with the data directory locked.
func SweepSpool(dataDir string) error {
	if err := os.RemoveAll(SpoolDir(dataDir)); err != nil {
		return fmt.Errorf("remove an unfinished snapshot: %w", err)
	}
	return nil
}

func spoolBelow(ctx context.Context, source Source) (entry, *Snapshot, error) {
	dir := SpoolDir(source.DataDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return entry{}, nil, fmt.Errorf("make room for a snapshot: %w", err)
	}
	file, err := os.CreateTemp(dir, "snapshot-*.db")
	if err != nil {
		return entry{}, nil, fmt.Errorf("make room for a snapshot: %w", err)
	}
	snapshot, err := spool(ctx, file, source.Snapshot, source.Prefix)
	info, statErr := file.Stat()
	if err = errors.Join(err, statErr, file.Close()); err != nil {
		return entry{}, nil, errors.Join(err, os.Remove(file.Name()))
	}
	return entry{File: File{Name: snapshotName, SizeBytes: info.Size(), SHA256: snapshot.SHA256}, path: file.Name()}, snapshot, nil
}

// identityEntries reads everything but the snapshot.
func identityEntries(source Source, withoutKeys bool) (entries []entry, leftOut []string, err error) {
	add := func(name, file string, secret bool) error {
		if withoutKeys && secret {
			leftOut = append(leftOut, name)
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read what the archive needs: %w", err)
		}
		entries = append(entries, newEntry(name, content))
		return nil
	}
	for _, room := range []string{"pki", "encryption"} {
		files, err := regularFiles(filepath.Join(source.DataDir, room))
		if err != nil {
			return nil, nil, err
		}
		for _, name := range files {
			// Certificates without their keys are of no use, and in the way of
			// new ones.
			if err := add(path.Join(room, name), filepath.Join(source.DataDir, room, name), true); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(source.ConfigFiles)) {
		file := source.ConfigFiles[field]
		secret := field == "apiServer.encryption.configFile" || strings.Contains(strings.ToLower(field), "keyfile") || strings.Contains(strings.ToLower(field), "credentials")
		if err := add(path.Join("config/files", field), file, secret); err != nil {
			return nil, nil, err
		}
	}
	if source.Config != nil {
		entries = append(entries, newEntry(configName, source.Config))
	}
	return entries, leftOut, nil
}

func newEntry(name string, content []byte) entry {
	sum := sha256.Sum256(content)
	return entry{File: File{Name: name, SizeBytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}, content: content}
}

// regularFiles lists a directory, which need not exist.
func regularFiles(dir string) ([]string, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the archive needs: %w", err)
	}
	var names []string
	for _, file := range found {
		// What begins with a dot is on its way into its place.
		if !file.IsDir() && !strings.HasPrefix(file.Name(), ".") {
			names = append(names, file.Name())
		}
	}
	return names, nil
}

func writeArchive(ctx context.Context, w io.Writer, m *Manifest, entries []entry) error {
	out, err := newArchiveWriter(w, m)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := out.addEntry(ctx, e); err != nil {
			return err
		}
	}
	return out.close()
}

// archiveWriter writes the files of an archive, in the order of its manifest.
type archiveWriter struct {
	gzip    *gzip.Writer
	tar     *tar.Writer
	created time.Time
}

// newArchiveWriter writes the manifest.
func newArchiveWriter(w io.Writer, m *Manifest) (*archiveWriter, error) {
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	// Most of it are objects that repeat each other: the fastest level takes
	// nearly as much off as the best one.
	compressed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	a := &archiveWriter{gzip: compressed, tar: tar.NewWriter(compressed), created: m.Created}
	return a, a.addEntry(context.Background(), newEntry(manifestName, append(manifest, '\n')))
}

// addEntry writes the next file from the entry.
func (a *archiveWriter) addEntry(ctx context.Context, e entry) error {
	if e.path == "" {
		return a.add(ctx, e.File, bytes.NewReader(e.content))
	}
	file, err := os.Open(e.path)
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	defer func() { _ = file.Close() }() // only read
	return a.add(ctx, e.File, file)
}

// add writes the next file.
func (a *archiveWriter) add(ctx context.Context, f File, content io.Reader) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: f.SizeBytes, Mode: 0o600, ModTime: a.created})
	if err == nil {
		_, err = io.Copy(a.tar, content)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return nil
}

func (a *archiveWriter) close() error { return errors.Join(a.tar.Close(), a.gzip.Close()) }
