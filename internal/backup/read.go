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
	"strings"
)

// ReadManifest reads the beginning of an archive and believes it.
func ReadManifest(r io.Reader) (*Manifest, error) {
	_, m, err := begin(r)
	return m, err
}

// Read reads an archive through and holds it against its manifest. visit, which
// may be nil, is called for every file in order; what it has been given counts
// only when Read returns without an error. The errors about the archive are
// ErrDamaged.
func Read(r io.Reader, visit func(*Manifest, File, io.Reader) error) (*Manifest, error) {
	archive, m, err := begin(r)
	if err != nil {
		return nil, err
	}
	for _, file := range m.Files {
		header, err := archive.tar.Next()
		if err != nil {
			return nil, damaged("%s is missing: %w", file.Name, truncated(err))
		}
		if header.Name != file.Name || header.Size != file.SizeBytes || header.Typeflag != tar.TypeReg || isSparse(header) {
			return nil, damaged("it has %s of %d bytes where the manifest has %s of %d bytes", header.Name, header.Size, file.Name, file.SizeBytes)
		}
		if err := readFile(archive.tar, m, file, visit); err != nil {
			return nil, err
		}
	}
	if _, err := archive.tar.Next(); !errors.Is(err, io.EOF) {
		return nil, damaged("it has more than its manifest says")
	}
	// The end of tar is not the end of the stream; gzip checks its sum there.
	rest, err := io.Copy(io.Discard, io.LimitReader(archive.gzip, maxPadding))
	if err != nil {
		return nil, damaged("its end: %w", truncated(err))
	}
	if _, err := archive.raw.ReadByte(); rest == maxPadding || !errors.Is(err, io.EOF) {
		return nil, damaged("it goes on where it should end")
	}
	return m, nil
}

// isSparse: a few bytes of a sparse file can stand for more than anybody can
// read.
func isSparse(header *tar.Header) bool {
	for record := range header.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// maxPadding is more than tar puts after its end.
const maxPadding = 1 << 20

func readFile(r io.Reader, m *Manifest, file File, visit func(*Manifest, File, io.Reader) error) error {
	sum := sha256.New()
	content := &remembering{Reader: io.TeeReader(r, sum)}
	if visit != nil {
		if err := visit(m, file, content); err != nil && content.err == nil {
			return err // the visitor's, not the archive's
		}
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return damaged("%s: %w", file.Name, truncated(err))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != file.SHA256 {
		return damaged("%s is not what was saved (SHA-256 %s, not %s)", file.Name, got, file.SHA256)
	}
	return nil
}

// remembering keeps the error that reading ended with.
type remembering struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// opened is an archive whose manifest has been read.
type opened struct {
	raw  *bufio.Reader
	gzip *gzip.Reader
	tar  *tar.Reader
}

func begin(r io.Reader) (*opened, *Manifest, error) {
	raw := bufio.NewReader(r)
	compressed, err := gzip.NewReader(raw)
	if err != nil {
		return nil, nil, damaged("it does not begin as a backup does: %w", truncated(err))
	}
	compressed.Multistream(false)
	archive := tar.NewReader(compressed)
	header, err := archive.Next()
	if err != nil {
		return nil, nil, damaged("it does not begin as a backup does: %w", truncated(err))
	}
	if header.Name != manifestName || header.Size > maxManifest || header.Typeflag != tar.TypeReg {
		return nil, nil, damaged("it begins with %q, not with %s", header.Name, manifestName)
	}
	data, err := io.ReadAll(archive)
	if err != nil {
		return nil, nil, damaged("%s: %w", manifestName, truncated(err))
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, nil, err
	}
	return &opened{raw: raw, gzip: compressed, tar: archive}, m, nil
}

// truncated says in plain words what an early end is.
func truncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("it ends too early (%w)", err)
	}
	return err
}
