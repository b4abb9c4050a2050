package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
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

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Source has the content of a backup.
type Source struct {
	// DataDir has the certificates and keys. Snapshots are copied to it first.
	DataDir string
	// Stamp is the release that wrote the data.
	Stamp datadir.Stamp
	// Snapshot opens a stream like that of etcd's Maintenance.Snapshot.
	Snapshot func(context.Context) (io.ReadCloser, error)
	// Prefix of the API servers' keys.
	Prefix string
	// Config is the effective configuration.
	Config []byte
	// ConfigFiles are the fields of the configuration that name files, in the order of the
	// backup. The file of the field a.b is config/files/a.b there.
	ConfigFiles []config.Field
	// Spooled, unless it is nil, is called once when the content has been read, before
	// the first byte is written.
	Spooled func()
}

// Options select the content of a backup.
type Options struct {
	// Reason is one of the Reason constants.
	Reason string
	// Chain is the ID of the chain for a base of a journal.
	Chain string
	// ChainKey authenticates the end of the chain.
	ChainKey string
	// WithoutKeys leaves out all files with secrets.
	WithoutKeys bool
}

// entry is a file to write.
type entry struct {
	File
	content []byte
	path    string // instead of content
}

// Write writes a backup. It reads the whole content before it writes the first byte, so
// that most errors occur before. After an error in between, [Read] refuses the stream.
func Write(ctx context.Context, w io.Writer, source Source, options Options) (*Manifest, error) {
	m := &Manifest{Format: Format, Created: time.Now().UTC().Truncate(time.Second), Reason: options.Reason,
		Chain: options.Chain, ChainKey: options.ChainKey, Stamp: source.Stamp}
	if host, err := os.Hostname(); err == nil { // otherwise Host is empty
		m.Host = host
	}
	spooled, snapshot, err := spool(ctx, source)
	if err != nil {
		return nil, err
	}
	// The directory may have other snapshots. SweepSpool removes what remains.
	defer func() { _, _ = os.Remove(spooled.path), os.Remove(filepath.Dir(spooled.path)) }()
	m.Snapshot = snapshot
	small, leftOut, err := identityEntries(source, options.WithoutKeys)
	if err != nil {
		return nil, err
	}
	entries := append([]entry{spooled}, small...)
	m.LeftOut = leftOut
	for _, e := range entries {
		m.Files = append(m.Files, e.File)
	}
	if source.Spooled != nil {
		source.Spooled()
	}
	if err := writeBackup(ctx, w, m, entries); err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	return m, nil
}

// spoolDir is the directory in the data directory to which snapshots are copied.
const spoolDir = "snapshot.tmp"

// SpoolDir returns the directory for temporary copies of etcd's data.
func SpoolDir(dataDir string) string { return filepath.Join(dataDir, spoolDir) }

// SweepSpool removes the copies of a server that was killed. Call it with the data
// directory locked.
func SweepSpool(dataDir string) error {
	if err := os.RemoveAll(SpoolDir(dataDir)); err != nil {
		return fmt.Errorf("remove an unfinished snapshot: %w", err)
	}
	return nil
}

// IdentityDirs are the directories of the certificates and keys, in the data directory and in
// backups.
var IdentityDirs = []string{"pki", "encryption"}

// identityEntries reads all files except the snapshot.
func identityEntries(source Source, withoutKeys bool) (entries []entry, leftOut []string, err error) {
	for _, name := range IdentityDirs {
		dir := filepath.Join(source.DataDir, name)
		if withoutKeys {
			// Certificates are left out, too: without their keys they prevent that
			// new ones are made.
			files, err := RegularFiles(dir)
			if err != nil {
				return nil, nil, err
			}
			for _, file := range slices.Sorted(maps.Keys(files)) {
				leftOut = append(leftOut, path.Join(name, file))
			}
			continue
		}
		files, err := readFiles(dir)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range slices.Sorted(maps.Keys(files)) {
			entries = append(entries, newEntry(path.Join(name, file), files[file]))
		}
	}
	for _, field := range source.ConfigFiles {
		name := ConfigFileName(field.Path)
		if withoutKeys && field.Secret {
			leftOut = append(leftOut, name)
			continue
		}
		content, err := os.ReadFile(field.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("read the content of the backup: %w", err)
		}
		if withoutKeys && hasPrivateKey(content) { // a certificate and its key may be in one file
			leftOut = append(leftOut, name)
			continue
		}
		entries = append(entries, newEntry(name, content))
	}
	if source.Config != nil {
		entries = append(entries, newEntry(configName, source.Config))
	}
	return entries, leftOut, nil
}

// hasPrivateKey reports whether PEM data has a private key.
func hasPrivateKey(data []byte) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return true
		}
	}
	return false
}

// configFiles begins the names of the files that the configuration names.
const configFiles = "config/files/"

// ConfigFileName returns the name, in backups, of the file that the field at the path
// names.
func ConfigFileName(field string) string { return configFiles + field }

// ConfigFileField returns the field whose file has the name in backups.
func ConfigFileField(name string) (field string, ok bool) {
	return strings.CutPrefix(name, configFiles)
}

func newEntry(name string, content []byte) entry {
	sum := sha256.Sum256(content)
	return entry{File: File{Name: name, SizeBytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])},
		content: content}
}

func writeBackup(ctx context.Context, w io.Writer, m *Manifest, entries []entry) error {
	out, err := newBackupWriter(w, m)
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

// backupWriter writes the files of a backup, in the order of its manifest.
type backupWriter struct {
	gzip    *gzip.Writer
	tar     *tar.Writer
	created time.Time
}

// newBackupWriter writes the manifest.
func newBackupWriter(w io.Writer, m *Manifest) (*backupWriter, error) {
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	// Objects are similar to each other: the fastest level compresses nearly as well as
	// the best one.
	compressed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	a := &backupWriter{gzip: compressed, tar: tar.NewWriter(compressed), created: m.Created}
	return a, a.addEntry(context.Background(), newEntry(manifestName, append(manifest, '\n')))
}

// addEntry writes the next file from the entry.
func (a *backupWriter) addEntry(ctx context.Context, e entry) error {
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
func (a *backupWriter) add(ctx context.Context, f File, content io.Reader) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: f.SizeBytes, Mode: 0o600,
		ModTime: a.created})
	if err == nil {
		_, err = io.Copy(a.tar, content)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return nil
}

func (a *backupWriter) close() error { return errors.Join(a.tar.Close(), a.gzip.Close()) }

// maxReads bounds the attempts to read files as they were at one moment.
const maxReads = 20

// AtOneMoment lists files and calls read with them, and repeats both until no file has changed in
// between: a rotation changes several files, which must be read in the same state. It returns the
// files.
func AtOneMoment(list func() (map[string]fs.FileInfo, error),
	read func(map[string]fs.FileInfo) error) (map[string]fs.FileInfo, error) {
	for range maxReads {
		before, err := list()
		if err != nil {
			return nil, err
		}
		readErr := read(before)
		after, err := list()
		if err != nil {
			return nil, err
		}
		if maps.EqualFunc(before, after, IsUnchanged) {
			return before, readErr
		}
	}
	return nil, errors.New("the files change all the time: try again")
}

// IsUnchanged reports whether a file was neither written nor replaced between two looks.
func IsUnchanged(before, after fs.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// readFiles returns the contents of the files in a directory, which need not exist, by name,
// as they were at one moment.
func readFiles(dir string) (contents map[string][]byte, err error) {
	_, err = AtOneMoment(func() (map[string]fs.FileInfo, error) { return RegularFiles(dir) },
		func(files map[string]fs.FileInfo) (err error) {
			contents = map[string][]byte{}
			for name := range files {
				if contents[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the content of the backup: %s: %w", dir, err)
	}
	return contents, nil
}

// RegularFiles lists a directory, which need not exist, by name. It leaves out temporary
// files, whose names begin with a dot.
func RegularFiles(dir string) (map[string]fs.FileInfo, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list certificates and keys: %w", err)
	}
	files := map[string]fs.FileInfo{}
	for _, file := range found {
		if file.IsDir() || strings.HasPrefix(file.Name(), ".") {
			continue
		}
		info, err := datadir.StatFile(filepath.Join(dir, file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was replaced or removed just now
		}
		if err != nil {
			return nil, fmt.Errorf("list certificates and keys: %w", err)
		}
		files[file.Name()] = info
	}
	return files, nil
}
