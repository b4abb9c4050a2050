package backup

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Read reads a backup and verifies it with its manifest. It calls visit, which may be
// nil, for each file in order. The files are verified only if Read returns no error.
// Errors of the backup wrap ErrDamaged.
func Read(r io.Reader, visit func(*Manifest, File, io.Reader) error) (*Manifest, error) {
	backup, m, err := openManifest(r)
	if err != nil {
		return nil, err
	}
	for _, file := range m.Files {
		header, err := backup.tar.Next()
		if err != nil {
			return nil, damaged("%s is missing: %w", file.Name, truncated(err))
		}
		if header.Name != file.Name || header.Size != file.SizeBytes || header.Typeflag != tar.TypeReg {
			return nil, damaged("it has the file %s of %d bytes, but the manifest has %s of %d bytes", header.Name, header.Size,
				file.Name, file.SizeBytes)
		}
		if err := readFile(backup.tar, m, file, visit); err != nil {
			return nil, err
		}
	}
	if _, err := backup.tar.Next(); !errors.Is(err, io.EOF) {
		return nil, damaged("it has files that its manifest lacks")
	}
	// gzip verifies its checksum at the end of the stream, after the end of tar.
	rest, err := io.Copy(io.Discard, io.LimitReader(backup.gzip, maxPadding))
	if err != nil {
		return nil, damaged("its end: %w", truncated(err))
	}
	if _, err := backup.raw.ReadByte(); rest == maxPadding || !errors.Is(err, io.EOF) {
		return nil, damaged("it has data after its end")
	}
	return m, nil
}

// maxPadding is larger than the padding at the end of a tar stream.
const maxPadding = 1 << 20

func readFile(r io.Reader, m *Manifest, file File, visit func(*Manifest, File, io.Reader) error) error {
	sum := sha256.New()
	content := &errorReader{Reader: io.TeeReader(r, sum)}
	if visit != nil {
		if err := visit(m, file, content); err != nil && content.err == nil {
			return err // of visit, not of the backup
		}
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return damaged("%s: %w", file.Name, truncated(err))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != file.SHA256 {
		return damaged("%s was changed (SHA-256 %s, not %s)", file.Name, got, file.SHA256)
	}
	return nil
}

// errorReader is a reader that records its last error.
type errorReader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (r *errorReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// opened is a backup whose manifest has been read.
type opened struct {
	raw  *bufio.Reader
	gzip *gzip.Reader
	tar  *tar.Reader
}

// openManifest reads the manifest, the first file of a backup.
func openManifest(r io.Reader) (*opened, *Manifest, error) {
	raw := bufio.NewReader(r)
	compressed, err := gzip.NewReader(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%w, or it is not a backup: %w", ErrDamaged, truncated(err))
	}
	compressed.Multistream(false)
	backup := tar.NewReader(compressed)
	header, err := backup.Next()
	if err != nil {
		return nil, nil, fmt.Errorf("%w, or it is not a backup: %w", ErrDamaged, truncated(err))
	}
	if header.Name != manifestName || header.Size > maxManifest || header.Typeflag != tar.TypeReg {
		return nil, nil, damaged("its first file is %q, not %s", header.Name, manifestName)
	}
	data, err := io.ReadAll(backup)
	if err != nil {
		return nil, nil, damaged("%s: %w", manifestName, truncated(err))
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, nil, err
	}
	return &opened{raw: raw, gzip: compressed, tar: backup}, m, nil
}

// truncated explains the error of an early end.
func truncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("it is truncated (%w)", err)
	}
	return err
}
