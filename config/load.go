package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// FieldError is an invalid value in the configuration. File and Line are
// zero when the value did not come from a file.
type FieldError struct {
	File    string
	Line    int
	Path    string
	Message string
}

// NewFieldError returns the error of the field at path, without its place in a file.
func NewFieldError(path, format string, args ...any) *FieldError {
	return &FieldError{Path: path, Message: fmt.Sprintf(format, args...)}
}

// Error formats as file:line: path: message, leaving out what is unknown.
func (e *FieldError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Source has the position of each field in the file, so that errors that are found
// later can have the line. The zero Source is that of no file.
type Source struct {
	file  string
	lines map[string]int
	flags map[string]string
}

// Override records that a flag has set the field at path: errors then name the flag.
func (s *Source) Override(path, flag string) {
	if s.flags == nil {
		s.flags = map[string]string{}
	}
	s.flags[path] = flag
}

// Locate fills in the flag, or file and line, of every FieldError in err that has a path, and
// puts errors that are joined in the order of the lines.
func (s Source) Locate(err error) error {
	var list interface{ Unwrap() []error }
	if errors.As(err, &list) {
		located := make([]error, 0, len(list.Unwrap()))
		for _, e := range list.Unwrap() {
			located = append(located, s.Locate(e))
		}
		slices.SortStableFunc(located, func(a, b error) int { return line(a) - line(b) })
		return errors.Join(located...)
	}
	var field *FieldError
	if !errors.As(err, &field) || field.File != "" {
		return err
	}
	if flag, ok := s.flags[field.Path]; ok {
		located := *field
		located.Path = "--" + flag
		return &located
	}
	for path := field.Path; path != ""; path = parent(path) {
		if line, ok := s.lines[path]; ok {
			located := *field
			located.File, located.Line = s.file, line
			return &located
		}
	}
	return err
}

// line returns 0 for an error without a line.
func line(err error) int {
	field := new(FieldError)
	errors.As(err, &field)
	return field.Line
}

func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// Load reads a configuration file strictly onto the defaults. Relative paths in it are
// relative to its directory. An empty file has the defaults, as has a key without a value. Errors in
// the content are [FieldError]s, joined. The values are not checked, see [ServerConfiguration.Validate].
func Load(file string) (*ServerConfiguration, Source, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, Source{}, fmt.Errorf("read the configuration: %w", err)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, Source{}, fmt.Errorf("read the configuration: %w", err)
	}
	cfg, source, err := Parse(file, data)
	if err == nil {
		cfg.file = path
		cfg.resolve(filepath.Dir(path))
	}
	return cfg, source, err
}

// Parse is [Load] for a text that is not in a file, which errors call name. Relative paths are
// relative to the working directory.
func Parse(name string, data []byte) (*ServerConfiguration, Source, error) {
	source := Source{file: name, lines: map[string]int{}}
	root, err := parse(name, data)
	if err != nil || root == nil {
		return Default(), source, err
	}
	former := renameKey(root, "archive", "journal")
	walk := &walker{source: source}
	if walk.typeMeta(root); len(walk.errs) == 0 {
		walk.object(root, configurationType, "")
	}
	if len(walk.errs) > 0 {
		return nil, source, errors.Join(walk.errs...)
	}
	cfg := Default()
	cfg.former = former
	if err := decode(data, cfg); err != nil {
		return nil, source, &FieldError{File: name, Message: err.Error()}
	}
	return cfg, source, nil
}

// decode decodes YAML onto the defaults in cfg. Keys without a value keep them: to the decoders of
// lists and quantities, null is empty or 0.
func decode(data []byte, cfg *ServerConfiguration) error {
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields, func(d *json.Decoder) *json.Decoder {
		d.UseNumber()
		return d
	}); err != nil {
		return err
	}
	if cfg.former {
		fields["journal"] = fields["archive"]
		delete(fields, "archive")
	}
	dropNulls(fields)
	asJSON, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(asJSON, cfg)
}

// dropNulls removes keys without a value from mappings, also from those in mappings and lists.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, v any) bool {
			dropNulls(v)
			return v == nil
		})
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}

// renameKey gives a key of a mapping its present name, and reports whether it was there.
func renameKey(mapping *yamlv3.Node, former, name string) (found bool) {
	for i := 0; i < len(mapping.Content); i += 2 {
		if key := mapping.Content[i]; key.Value == former {
			key.Value, found = name, true
		}
	}
	return found
}

// Note returns what a server says about the configuration at its start; empty if there is
// nothing to say.
func (c *ServerConfiguration) Note() string {
	switch {
	case !c.former:
		return ""
	case c.file == "":
		return "the field archive is called journal now: rename it"
	}
	return "the field archive is called journal now: rename it in " + c.file
}

// resolve makes the paths of the configuration absolute.
func (c *ServerConfiguration) resolve(dir string) {
	for _, field := range c.Fields() {
		makeAbsolute(field.path, dir)
	}
	for _, destination := range []*string{&c.Journal.Destination, &c.Planes.Journal} {
		if journal := (Journal{Destination: *destination}); !journal.isURL() {
			makeAbsolute(destination, dir)
		}
	}
}

// parse returns the mapping at the top of the only document in data, or nil if
// there is nothing but space and comments.
func parse(file string, data []byte) (*yamlv3.Node, error) {
	decoder := yamlv3.NewDecoder(strings.NewReader(string(data)))
	var document, second yamlv3.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, &FieldError{File: file, Message: "not a YAML document: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &FieldError{File: file, Line: second.Line, Message: "a second YAML document; one file holds one " + Kind}
	}
	root := document.Content[0]
	if root.Kind != yamlv3.MappingNode {
		return nil, &FieldError{File: file, Line: root.Line,
			Message: "not a mapping; a configuration begins with apiVersion: " + APIVersion + " and kind: " + Kind}
	}
	return root, nil
}

// Marshal renders the configuration as YAML.
func (c *ServerConfiguration) Marshal() ([]byte, error) {
	out, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("render the configuration: %w", err)
	}
	return out, nil
}
