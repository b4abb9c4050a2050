package manifests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Only selects objects of files.
type Only int

// What [Applier.ApplyOnce] applies.
const (
	// Everything in the files, which must be manifests.
	Everything Only = iota
	// CRDs and no other documents, which may be of any kind.
	CRDs
)

// selects reports whether a document with these fields is selected.
func (o Only) selects(fields map[string]any) bool {
	return o == Everything || fields["kind"] == crdKind.Kind
}

// ApplyOnce applies the manifests in each path, which is a file or a directory. It first
// applies the CRDs and waits until they are established. It records nothing and prunes
// nothing.
func (a *Applier) ApplyOnce(ctx context.Context, paths []string, only Only) error {
	var objects []object
	var errs []error
	for _, path := range paths {
		found, failed := readPath(path, only)
		objects, errs = append(objects, found...), append(errs, failed...)
	}
	return a.applyNew(ctx, objects, errs)
}

// ApplyFS is [Applier.ApplyOnce] for all manifests of a file system.
func (a *Applier) ApplyFS(ctx context.Context, files fs.FS) error {
	objects, errs := readAll(files, Everything)
	return a.applyNew(ctx, objects, errs)
}

// applyNew applies objects unless there are errors.
func (a *Applier) applyNew(ctx context.Context, objects []object, errs []error) error {
	if errs = append(errs, duplicates(objects)...); len(errs) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(a.applyObjects(ctx, objects, nil)...)
}

// readPath reads a file or a directory.
func readPath(path string, only Only) (objects []object, errs []error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, []error{fmt.Errorf("read manifests: %w", err)}
	case info.IsDir():
		objects, errs = readAll(os.DirFS(path), only)
	default:
		objects, errs = read(os.DirFS(filepath.Dir(path)), map[string]fileState{filepath.Base(path): {}}, only)
	}
	if len(errs) == 0 && len(objects) == 0 {
		what := "manifests"
		if only == CRDs {
			what = "CustomResourceDefinitions"
		}
		errs = []error{fmt.Errorf("read manifests: %s has no %s", path, what)}
	}
	return objects, errs
}

// readAll reads all manifests of a file system.
func readAll(files fs.FS, only Only) (objects []object, errs []error) {
	found, err := scan(files)
	if err != nil {
		return nil, []error{err}
	}
	return read(files, found, only)
}
