package manifests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// ApplyFS applies the manifests of a file system, those with the extensions .yaml, .yml and
// .json, in the order of their paths. It first applies the CRDs and waits until they are
// established. It records nothing and prunes nothing.
func (a *Applier) ApplyFS(ctx context.Context, files fs.FS) error {
	var objects []object
	var errs []error
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains(extensions, path.Ext(name)) {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		found, failed := parse(name, data, Everything.selects)
		objects, errs = append(objects, found...), append(errs, failed...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	if errs = append(errs, duplicates(objects)...); len(errs) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(a.applyObjects(ctx, objects)...)
}
