package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// archive packs the files of dir in the order of their names, owned by root,
// with nothing of this machine in it.
func archive(out, dir string, moment time.Time) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	name := filepath.Base(out)
	if prefix, ok := strings.CutSuffix(name, ".zip"); ok {
		return zipped(f, dir, prefix, moment)
	}
	if prefix, ok := strings.CutSuffix(name, ".tar.gz"); ok {
		return tarred(f, dir, prefix, moment)
	}
	return fmt.Errorf("%s is neither .tar.gz nor .zip", out)
}

// mode is what matters of a file's mode: that it can be executed.
func mode(info fs.FileInfo) fs.FileMode {
	if info.Mode()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

func tarred(w io.Writer, dir, prefix string, moment time.Time) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	err = each(dir, func(name string, info fs.FileInfo, content io.Reader) error {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(prefix, name), Size: info.Size(),
			Mode: int64(mode(info)), ModTime: moment}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.Copy(archive, content)
		return err
	})
	return errors.Join(err, archive.Close(), compressed.Close())
}

func zipped(w io.Writer, dir, prefix string, moment time.Time) error {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate,
		func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	err := each(dir, func(name string, info fs.FileInfo, content io.Reader) error {
		header := &zip.FileHeader{Name: path.Join(prefix, name), Method: zip.Deflate, Modified: moment}
		header.SetMode(mode(info))
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return err
	})
	return errors.Join(err, archive.Close())
}

// each calls do for each file, sorted by name.
func each(dir string, do func(name string, info fs.FileInfo, content io.Reader) error) error {
	return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return do(filepath.ToSlash(name), info, f)
	})
}
