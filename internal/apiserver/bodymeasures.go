package apiserver

import (
	"bytes"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// maxDepth is the depth of JSON above which decoders refuse it.
const maxDepth = 10_000

// jsonEntries returns the number of entries of the map in the text that has the most, or of
// the list in the top-level field metadata. It does not check the syntax.
func jsonEntries(text []byte) int {
	type container struct {
		list    bool
		entries int
	}
	var open []container
	most, metadata, key := 0, false, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end, len(text))
			if key && len(open) == 1 {
				name := text[i+1 : end]
				metadata = string(name) == "metadata" || bytes.IndexByte(name, '\\') >= 0
			}
			key, i = false, end
		case '{', '[':
			if len(open) == maxDepth {
				return most
			}
			key = text[i] == '{'
			open = append(open, container{list: !key, entries: 1})
		case ',':
			if len(open) == 0 {
				continue
			}
			top := &open[len(open)-1]
			if top.entries++; !top.list || metadata {
				most = max(most, top.entries)
			}
			key = !top.list
		case '}', ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		}
	}
	return most
}

// measureYAML measures a document without expanding its aliases.
func measureYAML(text []byte) (bodyMeasure, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return bodyMeasure{}, err
	}
	y := yamlMeasure{nodes: map[*yaml.Node]yamlNode{}}
	root := y.node(&document, false)
	return bodyMeasure{size: root.size, entries: y.most}, nil
}

// yamlMeasure measures the nodes of a document.
type yamlMeasure struct {
	nodes map[*yaml.Node]yamlNode // with aliases
	most  int
}

// yamlNode is the size of a node with all aliases in it, and the number of its entries.
type yamlNode struct{ size, entries int }

// maxMeasured keeps sums from an overflow.
const maxMeasured = 1 << 40

func (y *yamlMeasure) node(n *yaml.Node, metadata bool) yamlNode {
	if n.Kind == yaml.AliasNode {
		return y.node(n.Alias, metadata)
	}
	if known, ok := y.nodes[n]; ok {
		if metadata {
			y.most = max(y.most, known.entries)
		}
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
		isValue := n.Kind == yaml.MappingNode && i%2 == 1
		measured := y.node(child, metadata || isValue && n.Content[i-1].Value == "metadata")
		if isValue && n.Content[i-1].Tag == "!!merge" {
			result.entries += measured.entries
		}
		result.size, result.entries = min(result.size+measured.size, maxMeasured), min(result.entries, maxMeasured)
	}
	if n.Kind == yaml.MappingNode || metadata {
		y.most = max(y.most, result.entries)
	}
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
