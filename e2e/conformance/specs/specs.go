package specs

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed *.txt *.yaml
var files embed.FS

// Names of the lists.
const (
	// Generic needs nothing that is not on by default but the bootstrap token
	// controllers.
	Generic = "generic"
	// OptIn needs APIs that are off by default.
	OptIn = "optin"
	// Fast is a part of Generic that takes a few minutes.
	Fast = "fast"
	// Kubernetes needs the profile that serves all types of kube-apiserver. It
	// contains Generic, and what only that profile can pass.
	Kubernetes = "kubernetes"
)

// configured selects the server configuration of a list.
var configured = map[string]string{Generic: Generic, OptIn: OptIn, Fast: Generic, Kubernetes: Kubernetes}

// parts are the files that a list is made of, for lists of more than one.
var parts = map[string][]string{Kubernetes: {Generic, Kubernetes}}

// List is a list of specs.
type List struct {
	// Name of the list.
	Name string
	// Specs are the full texts of the specs, in the order of the file.
	Specs []string
	// ServerConfig is the server's configuration file.
	ServerConfig []byte
}

// Load returns the list of that name. It fails if there is none, or if a line
// of it is not understood or comes twice.
func Load(name string) (List, error) {
	config, known := configured[name]
	if !known {
		return List{}, fmt.Errorf("load the list of specs %q: there are only %s, %s, %s and %s", name, Generic, OptIn, Fast, Kubernetes)
	}
	var err error
	list := List{Name: name}
	if list.ServerConfig, err = files.ReadFile(config + ".yaml"); err != nil {
		return List{}, fmt.Errorf("load the server configuration for the specs %q: %w", name, err)
	}
	names := parts[name]
	if names == nil {
		names = []string{name}
	}
	for _, part := range names {
		text, err := files.ReadFile(part + ".txt")
		if err != nil {
			return List{}, fmt.Errorf("load the list of specs %q: %w", name, err)
		}
		specs, err := parse(part+".txt", string(text))
		if err != nil {
			return List{}, err
		}
		list.Specs = append(list.Specs, specs...)
	}
	return list, nil
}

// parse reads lines of a mark, "C" for [Conformance] and "-" for all others,
// and a spec's full text. Empty lines and lines that start with # are comments.
func parse(file, text string) ([]string, error) {
	var specs []string
	seen := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		mark, spec, _ := strings.Cut(line, " ")
		if conformance := strings.Contains(spec, "[Conformance]"); spec == "" || conformance && mark != "C" || !conformance && mark != "-" {
			return nil, fmt.Errorf("%s:%d: %q is neither \"C \" and a spec that is [Conformance] nor \"- \" and one that is not", file, number, line)
		}
		if first, twice := seen[spec]; twice {
			return nil, fmt.Errorf("%s:%d: line %d has this spec already; remove one", file, number, first)
		}
		seen[spec] = number
		specs = append(specs, spec)
	}
	return specs, nil
}

// Only returns the list with those of its specs that match.
func (l List) Only(pattern *regexp.Regexp) List {
	only := l
	only.Specs = nil
	for _, spec := range l.Specs {
		if pattern.MatchString(spec) {
			only.Specs = append(only.Specs, spec)
		}
	}
	return only
}
