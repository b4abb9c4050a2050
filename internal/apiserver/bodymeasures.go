package apiserver

import (
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// maxDepth is the depth of JSON above which decoders refuse it.
const maxDepth = 10_000

// jsonEntries returns the number of entries of the map, and of the list, in the text that has
// the most. It does not check the syntax.
func jsonEntries(text []byte) (maps, lists int) {
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
				return maps, lists
			}
			most := &maps
			if text[i] == '[' {
				most = &lists
			}
			open = append(open, container{most, 1})
		case ',':
			if len(open) > 0 {
				top := &open[len(open)-1]
				top.entries++
				*top.most = max(*top.most, top.entries)
			}
		case '}', ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		}
	}
	return maps, lists
}

// measureYAML measures a document without expanding its aliases.
func measureYAML(text []byte) (bodyMeasure, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return bodyMeasure{}, err
	}
	y := yamlMeasure{nodes: map[*yaml.Node]yamlNode{}}
	root := y.node(&document)
	return bodyMeasure{size: root.size, maps: y.most}, nil
}

// yamlMeasure measures the nodes of a document.
type yamlMeasure struct {
	nodes map[*yaml.Node]yamlNode // with aliases
	most  int                     // entries of a map or a list
}

// yamlNode is the size of a node with all aliases in it, and the number of its entries.
type yamlNode struct{ size, entries int }

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
	}
	y.most = max(y.most, result.entries)
	if n.Anchor != "" {
		y.nodes[n] = result
	}
	return result
}

// protobufEntries returns how often the most frequent field of an object, or of its
// metadata, is in a body of Kubernetes' protobuf. A map is a field for each entry.
func protobufEntries(body []byte) int {
	const prefixSize, object, metadata = 4, 2, 1 // runtime.Unknown has the object as field 2
	if len(body) < prefixSize {
		return 0
	}
	most := 0
	eachField(body[prefixSize:], func(number protowire.Number, raw []byte) {
		if number != object {
			return
		}
		most = max(most, mostFrequent(raw))
		eachField(raw, func(number protowire.Number, raw []byte) {
			if number == metadata {
				most = max(most, mostFrequent(raw))
			}
		})
	})
	return most
}

func mostFrequent(message []byte) int {
	counts, most := map[protowire.Number]int{}, 0
	eachField(message, func(number protowire.Number, _ []byte) {
		counts[number]++
		most = max(most, counts[number])
	})
	return most
}

// eachField calls f with the fields of a message that have bytes, until one is invalid.
func eachField(message []byte, f func(protowire.Number, []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return
		}
		if value, size := protowire.ConsumeBytes(message); kind == protowire.BytesType && size > 0 {
			f(number, value)
		}
		message = message[n:]
	}
}
