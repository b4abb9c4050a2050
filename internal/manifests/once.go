package manifests

import (
	"bytes"
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

// selects reports whether a document with these fields is selected.
func (o Only) selects(fields map[string]any) bool {
	return o == Everything || fields["kind"] == crdKind.Kind
}

// mayBeIn reports whether the text of a template may have a selected object.
func (o Only) mayBeIn(template []byte) bool {
	return o == Everything || bytes.Contains(template, []byte(crdKind.Kind))
}

// ApplyOnce applies the manifests in each path, which is a file or a directory. It first
// applies the CRDs and waits until they are established. It returns the number of applied
// objects. It records nothing and prunes nothing.
func (a *Applier) ApplyOnce(ctx context.Context, paths []string, only Only) (int, error) {
	var objects []object
	var errs []error
	for _, path := range paths {
		found, skipped, failed := readPath(path, only)
		if len(skipped) > 0 {
			a.log.Info("skipped templates of Helm charts, which have no CRDs", "files", skipped)
		}
		objects = append(objects, found...)
		errs = append(errs, failed...)
	}
	if errs = append(errs, duplicates(objects)...); len(errs) > 0 {
		return 0, errors.Join(errs...)
	}
	return len(objects), errors.Join(a.applyObjects(ctx, objects)...)
}

// readPath reads a file or a directory.
func readPath(path string, only Only) (objects []object, skipped []string, errs []error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, []error{fmt.Errorf("read manifests: %w", err)}
	}
	files := map[string]fileState{path: {}}
	dir := filepath.Dir(path)
	if info.IsDir() {
		dir = path
		if files, err = scan(dir); err != nil {
			return nil, nil, []error{err}
		}
	}
	objects, skipped, errs = read(dir, files, only)
	if len(errs) == 0 && len(objects) == 0 {
		what := "manifests"
		if only == CRDs {
			what = "CustomResourceDefinitions"
		}
		errs = []error{fmt.Errorf("read manifests: %s has no %s", path, what)}
	}
	return objects, skipped, errs
}
