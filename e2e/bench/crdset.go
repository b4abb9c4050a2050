package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// defaultArchive has the CRDs of a cloud, one in each file. It is no part of
// the repository.
const defaultArchive = "../shared/crds/config-connector.tar.xz"

// definition is a CRD with the data that the figures need.
type definition struct {
	name, group, version, plural, kind string
	namespaced                         bool
	bare                               bool // an object without a spec is valid
	body                               []byte
}

// path is the collection of the CRD's objects.
func (d definition) path(namespace string) string {
	prefix := "/apis/" + d.group + "/" + d.version
	if d.namespaced {
		prefix += "/namespaces/" + namespace
	}
	return prefix + "/" + d.plural
}

func (d definition) object(name string) []byte {
	return encode(object{"apiVersion": d.group + "/" + d.version, "kind": d.kind, "metadata": object{"name": name}})
}

// readDefinitions reads the CRDs of an archive (.tar.xz, unpacked with the xz
// program, or .tar), and repeats them under other groups and kinds.
func readDefinitions(ctx context.Context, archive string, times int) ([]definition, error) {
	file, err := os.ReadFile(archive)
	if err != nil {
		return nil, fmt.Errorf("read the CRDs: %w; name an archive with -crd-archive", err)
	}
	if strings.HasSuffix(archive, ".xz") {
		unpack := exec.CommandContext(ctx, "xz", "--decompress", "--stdout")
		unpack.Stdin = bytes.NewReader(file)
		if file, err = unpack.Output(); err != nil {
			return nil, fmt.Errorf("unpack %s with xz: %w", archive, err)
		}
	}
	var all []definition
	for reader := tar.NewReader(bytes.NewReader(file)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", archive, err)
		}
		if filepath.Ext(header.Name) != ".yaml" {
			continue
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return nil, fmt.Errorf("read %s in %s: %w", header.Name, archive, err)
		}
		for copy := range times {
			d, err := newDefinition(text, copy)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", header.Name, err)
			}
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no CRDs", archive)
	}
	slices.SortFunc(all, func(a, b definition) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// newDefinition reads a CRD. A copy has its number in the names of the group
// and of the kind.
func newDefinition(text []byte, copy int) (definition, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return definition{}, err
	}
	metadata, spec := at(crd, "metadata"), at(crd, "spec")
	names := at(spec, "names")
	if copy > 0 {
		spec["group"] = fmt.Sprintf("copy%d.%s", copy, spec["group"])
		for _, name := range []string{"kind", "listKind"} {
			if kind, ok := names[name].(string); ok {
				names[name] = clip(fmt.Sprintf("C%d%s", copy, kind))
			}
		}
		for _, name := range []string{"plural", "singular"} {
			if word, ok := names[name].(string); ok {
				names[name] = clip(fmt.Sprintf("c%d%s", copy, word))
			}
		}
		delete(names, "shortNames")
	}
	d := definition{
		group: fmt.Sprint(spec["group"]), plural: fmt.Sprint(names["plural"]), kind: fmt.Sprint(names["kind"]),
		namespaced: spec["scope"] == "Namespaced",
	}
	d.name = d.plural + "." + d.group
	metadata["name"] = d.name
	delete(crd, "status")
	versions, _ := spec["versions"].([]any)
	for _, version := range versions {
		if version, ok := version.(map[string]any); ok && version["storage"] == true {
			d.version = fmt.Sprint(version["name"])
			required, _ := at(version, "schema", "openAPIV3Schema")["required"].([]any)
			d.bare = len(required) == 0
		}
	}
	body, err := json.Marshal(crd)
	d.body = body
	return d, err
}

// clip shortens a name to what the API takes.
func clip(name string) string {
	const longest = 63
	return name[:min(len(name), longest)]
}

// at descends into maps; what is missing is empty.
func at(o map[string]any, path ...string) map[string]any {
	for _, name := range path {
		o, _ = o[name].(map[string]any)
	}
	return o
}

// pick picks n of the definitions, evenly, of those that suit.
func pick(all []definition, n int, suits func(definition) bool) []definition {
	var suitable []definition
	for _, d := range all {
		if suits(d) {
			suitable = append(suitable, d)
		}
	}
	var picked []definition
	for i := range min(n, len(suitable)) {
		picked = append(picked, suitable[i*len(suitable)/min(n, len(suitable))])
	}
	return picked
}

func decode(data []byte, into any) error { return json.Unmarshal(data, into) }
