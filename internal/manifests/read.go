package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// scan lists the manifests below dir with their states. It ignores names that begin with
// a dot and files with other extensions. A directory that does not exist is an error: a
// volume that is not mounted must not be treated as an empty one.
func scan(dir string) (map[string]fileState, error) {
	files := map[string]fileState{}
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("list the manifests: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("list the manifests: %s is not a directory", dir)
	}
	// The separator makes WalkDir follow dir where it is a link.
	err := filepath.WalkDir(dir+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") && filepath.Clean(path) != filepath.Clean(dir) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() || !slices.Contains(extensions, filepath.Ext(path)) {
			return nil
		}
		info, err := os.Stat(path) // of what a link points to
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			files[filepath.Clean(path)] = fileState{info.Size(), info.ModTime().UnixNano()}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the manifests: %w", err)
	}
	return files, nil
}

// read returns the selected objects of all files in order, and the templates of Helm
// charts that it has skipped. It reads as much as can be read, and returns an error for
// each file or object that cannot.
func read(dir string, files map[string]fileState, only Only) (objects []object, skipped []string, errs []error) {
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			name = path
		}
		data, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("read the manifest: %w", err))
			continue
		}
		if chart := chartOf(path, data); chart != "" {
			if only.mayBeIn(data) {
				errs = append(errs, fmt.Errorf("%s is a template of the Helm chart %s: apply the output of "+
					"\"helm template %s\" instead", name, chart, chart))
			} else {
				skipped = append(skipped, path)
			}
			continue
		}
		found, failed := parse(name, data, only.selects)
		objects = append(objects, found...)
		errs = append(errs, failed...)
	}
	return objects, skipped, errs
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

func decode(origin string, document []byte, keep func(map[string]any) bool) ([]object, error) {
	var content any
	if err := yaml.UnmarshalStrict(document, &content); err != nil {
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
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
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

const (
	// chartFile is in the directory of each Helm chart, and templatesDir has its
	// templates.
	chartFile    = "Chart.yaml"
	templatesDir = "templates"
	// action begins each action of a template.
	action = "{{"
)

// chartOf returns the directory of the Helm chart that the file is a template of, or "".
// Files of a chart without actions, as those in its directory crds, are no templates.
func chartOf(path string, data []byte) string {
	if !bytes.Contains(data, []byte(action)) {
		return ""
	}
	for dir := filepath.Dir(path); filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if filepath.Base(dir) != templatesDir {
			continue
		}
		chart := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(chart, chartFile)); err == nil {
			return chart
		}
	}
	return ""
}
