package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/errors"
)

// bodyMeasure is what a body decodes to.
type bodyMeasure struct {
	size        int // about that of its JSON, in bytes
	maps, lists int // the number of entries of the map, and of the list, with the most
	nesting     int // the sum of the depths of all entries
}

// mostNesting is the nesting for each byte of a body. Upstream indents answers by two bytes for each
// level, also in YAML: 72 KB of 9,000 objects in each other become 162 MB.
const mostNesting = 16

// refusal returns the error for a body that has more than most entries, or is nested too deeply, and
// has not been so before.
func (m bodyMeasure) refusal(most int, before bodyMeasure) error {
	switch entries := max(m.maps, m.lists); {
	case entries > max(most, before.maps, before.lists):
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf("a map or a list has %d entries; at most %d are allowed "+
			"(limits.entries of the server's configuration)", entries, most))
	case m.nesting > max(mostNesting*m.size, before.nesting):
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf("the maps and lists are nested so deeply that indentation "+
			"makes more than %d times the size (limits.entries of the server's configuration)", 2*mostNesting))
	}
	return nil
}

func measure(body []byte, format bodyType) (bodyMeasure, error) {
	switch {
	case format == formatProtobuf:
		m := bodyMeasure{size: len(body)}
		m.addProtobuf(body[min(len("k8s\x00"), len(body)):], 8)
		return m, nil
	case format == formatYAML && !json.Valid(body): // patches of server-side apply are JSON mostly
		return measureYAML(body)
	}
	return measureJSON(body), nil
}

// maxDepth is the depth of JSON above which decoders refuse it.
const maxDepth = 10_000

// measureJSON does not check the syntax.
func measureJSON(text []byte) bodyMeasure {
	m := bodyMeasure{size: len(text)}
	type container struct {
		most    *int
		entries int
	}
	var open []container
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if len(open) == maxDepth {
				return m
			}
			most := &m.maps
			if text[i] == '[' {
				most = &m.lists
			}
			open = append(open, container{most, 1})
			m.nesting += len(open)
		case ',':
			if len(open) > 0 {
				top := &open[len(open)-1]
				top.entries++
				*top.most = max(*top.most, top.entries)
				m.nesting += len(open)
			}
		case '}', ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		}
	}
	return m
}

// measureYAML measures a document without expanding its aliases.
func measureYAML(text []byte) (bodyMeasure, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return bodyMeasure{}, err
	}
	y := yamlMeasure{nodes: map[*yaml.Node]yamlNode{}}
	root := y.node(&document)
	return bodyMeasure{size: root.size, maps: y.most, nesting: root.nesting}, nil
}

// yamlMeasure measures the nodes of a document.
type yamlMeasure struct {
	nodes map[*yaml.Node]yamlNode // with aliases
	most  int                     // entries of a map or a list
}

// yamlNode is the size of a node with all aliases in it, the number of its entries, that of all entries
// in it, and the sum of their depths.
type yamlNode struct{ size, entries, all, nesting int }

// maxMeasured keeps sums from an overflow.
const maxMeasured = 1 << 40

func (y *yamlMeasure) node(n *yaml.Node) yamlNode {
	if n.Kind == yaml.AliasNode {
		return y.node(n.Alias)
	}
	if known, ok := y.nodes[n]; ok {
		return known
	}
	if n.Anchor != "" {
		y.nodes[n] = yamlNode{} // of an alias within itself, which decoders refuse
	}
	result := yamlNode{size: len(n.Value) + len(`"",`), entries: len(n.Content)}
	if n.Kind == yaml.MappingNode {
		result.entries /= 2
	}
	for i, child := range n.Content {
		measured := y.node(child)
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Tag == "!!merge" {
			result.entries += measured.entries
		}
		result.size, result.entries = min(result.size+measured.size, maxMeasured), min(result.entries, maxMeasured)
		result.all = min(result.all+measured.all+1, maxMeasured)
		result.nesting = min(result.nesting+measured.nesting+measured.all+1, maxMeasured)
	}
	y.most = max(y.most, result.entries)
	if n.Anchor != "" {
		y.nodes[n] = result
	}
	return result
}

// addProtobuf adds what a message has, and the messages and the JSON in its fields: a map is a field for each
// entry. Each level of depth reads the message once.
func (m *bodyMeasure) addProtobuf(message []byte, depth int) {
	if text := bytes.TrimLeft(message, " \t\r\n"); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		m.nesting += measureJSON(text).nesting
	}
	counts, most := map[protowire.Number]int{}, 0
	complete := eachField(message, func(number protowire.Number, value []byte) {
		counts[number]++
		most = max(most, counts[number])
		if depth > 1 && len(value) >= 128 { // few bytes cannot have much
			m.addProtobuf(value, depth-1)
		}
	})
	if complete { // others are text
		m.maps = max(m.maps, most)
	}
}

// eachField calls f with the fields of a message that have bytes, until one is invalid, and reports
// whether none is.
func eachField(message []byte, f func(protowire.Number, []byte)) (complete bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return false
		}
		if value, size := protowire.ConsumeBytes(message); kind == protowire.BytesType && size > 0 {
			f(number, value)
		}
		message = message[n:]
	}
	return true
}
