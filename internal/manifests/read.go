package manifests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// object is an object of a manifest.
type object struct {
	*unstructured.Unstructured
	// origin is the file and the document's number in it, for messages.
	origin string
}

// extensions are those of manifests.
var extensions = []string{".yaml", ".yml", ".json"}

// fileState detects changes of a file.
type fileState struct {
	size     int64
	modified int64
}

// scan lists the manifests of a file system with their states. It ignores names that begin
// with a dot and files with other extensions. A directory that does not exist is an error: a
// volume that is not mounted must not be treated as an empty one.
func scan(files fs.FS) (map[string]fileState, error) {
	found := map[string]fileState{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") && name != "." {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if name == "." && !entry.IsDir() {
			return errors.New("it is not a directory")
		}
		if entry.IsDir() || !slices.Contains(extensions, path.Ext(name)) {
			return nil
		}
		info, err := fs.Stat(files, name) // of what a link points to
		if errors.Is(err, fs.ErrNotExist) && entry.Type()&fs.ModeSymlink == 0 {
			return nil // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			found[name] = fileState{info.Size(), info.ModTime().UnixNano()}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the manifests: %w", err)
	}
	return found, nil
}

// read returns the selected objects of the files in order. It reads as much as can be read,
// and returns an error for each file or object that cannot.
func read(files fs.FS, names map[string]fileState, only Only) (objects []object, errs []error) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("read the manifest: %w", err))
			continue
		}
		found, failed := parse(name, data, only.selects)
		objects, errs = append(objects, found...), append(errs, failed...)
	}
	return objects, errs
}

// parse returns the objects of one file and the items of its lists, of those documents
// whose fields keep returns true for.
func parse(name string, data []byte, keep func(map[string]any) bool) (objects []object, errs []error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, errs
		}
		origin := name
		if number > 1 {
			origin = fmt.Sprintf("%s (document %d)", name, number)
		}
		if err != nil {
			return objects, append(errs, fmt.Errorf("%s: %w", origin, err))
		}
		found, err := decode(origin, document, keep)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", origin, err))
		}
		objects = append(objects, found...)
	}
}

// errTemplate is the remedy for what is no YAML because it has actions of a template.
var errTemplate = errors.New("apply the output of `helm template` instead of templates")

func decode(origin string, document []byte, keep func(map[string]any) bool) ([]object, error) {
	asJSON, err := yaml.YAMLToJSONStrict(document)
	var content any
	if err == nil {
		err = json.Unmarshal(asJSON, &content)
	}
	if err != nil && bytes.Contains(document, []byte("{{")) {
		return nil, fmt.Errorf("not valid YAML: %w: %w", errTemplate, err)
	}
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	if content == nil {
		return nil, nil // comments only
	}
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, errors.New("not an object; it must have apiVersion, kind and metadata")
	}
	if !keep(fields) {
		return nil, nil
	}
	if fields["apiVersion"] == nil || fields["kind"] == nil {
		return nil, errors.New("apiVersion or kind is missing")
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(asJSON); err != nil {
		return nil, err
	}
	if !u.IsList() {
		return checked(object{u, origin})
	}
	var objects []object
	err = u.EachListItem(func(item runtime.Object) error {
		found, err := checked(object{item.(*unstructured.Unstructured), origin})
		objects = append(objects, found...)
		return err
	})
	return objects, err
}

// checked returns an error for an object that cannot be applied or pruned.
func checked(o object) ([]object, error) {
	if o.GetName() == "" {
		return nil, fmt.Errorf("%s has no metadata.name; with metadata.generateName each start would create another "+
			"object", o.GetKind())
	}
	if o.GetAPIVersion() == "" || o.GetKind() == "" {
		return nil, errors.New("apiVersion or kind is missing")
	}
	return []object{o}, nil
}

// duplicates returns an error for each object that is in two manifests.
func duplicates(objects []object) (errs []error) {
	first := map[reference]string{}
	for _, o := range objects {
		ref := referTo(o)
		if other, ok := first[ref]; ok {
			errs = append(errs, fmt.Errorf("%s: %s is also in %s", o.origin, ref, other))
			continue
		}
		first[ref] = o.origin
	}
	return errs
}
