package manifests

import (
	"context"
	"errors"
	"fmt"
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

// ApplyOnce applies the manifests in each path, which is a file or a directory. It first
// applies the CRDs and waits until they are established. It returns the number of applied
// objects. It records nothing and prunes nothing.
func (a *Applier) ApplyOnce(ctx context.Context, paths []string, only Only) (int, error) {
	var objects []object
	var errs []error
	for _, path := range paths {
		found, err := readPath(path, only)
		objects = append(objects, found...)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, duplicates(objects))...); err != nil {
		return 0, err
	}
	return len(objects), errors.Join(a.applyObjects(ctx, objects)...)
}

// readPath reads a file or a directory.
func readPath(path string, only Only) ([]object, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	files := map[string]fileState{path: {}}
	dir := filepath.Dir(path)
	if info.IsDir() {
		dir = path
		if files, err = scan(dir); err != nil {
			return nil, err
		}
	}
	keep := func(map[string]any) bool { return true }
	if only == CRDs {
		keep = func(fields map[string]any) bool { return fields["kind"] == crdKind.Kind }
	}
	objects, err := read(dir, files, keep)
	if err == nil && len(objects) == 0 {
		what := "manifests"
		if only == CRDs {
			what = "CustomResourceDefinitions"
		}
		err = fmt.Errorf("read manifests: %s has no %s", path, what)
	}
	return objects, err
}
