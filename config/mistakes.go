package config

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	yamlv3 "go.yaml.in/yaml/v3"
)

// without returns a copy of the tree that lacks the fields and lists with the nodes. An
// alias is replaced by its anchor.
func without(node *yamlv3.Node, nodes map[*yamlv3.Node]bool) *yamlv3.Node {
	for node.Kind == yamlv3.AliasNode {
		node = node.Alias
	}
	kept := *node
	kept.Content, kept.Anchor = nil, ""
	if node.Kind == yamlv3.MappingNode {
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if !nodes[key] && !lacks(value, nodes) {
				kept.Content = append(kept.Content, key, without(value, nodes))
			}
		}
		return &kept
	}
	for _, item := range node.Content {
		kept.Content = append(kept.Content, without(item, nodes))
	}
	return &kept
}

// lacks reports whether the value of a field is to be left out: the later items of a list
// without one would have other indices.
func lacks(value *yamlv3.Node, nodes map[*yamlv3.Node]bool) bool {
	for value.Kind == yamlv3.AliasNode {
		value = value.Alias
	}
	return nodes[value] || value.Kind == yamlv3.SequenceNode && slices.ContainsFunc(value.Content, func(item *yamlv3.Node) bool { return lacks(item, nodes) })
}

// mistakes joins what is wrong with the form of a file and with the values in it, in the
// order of the lines. It leaves out what may follow from a field with a wrong form: the
// field has its default then.
func (s Source) mistakes(form []error, values error) error {
	all := slices.Clone(form)
	for _, value := range split(values) {
		field := new(FieldError)
		if !errors.As(value, &field) || !slices.ContainsFunc(form, func(err error) bool { return s.follows(field, err) }) {
			all = append(all, value)
		}
	}
	slices.SortStableFunc(all, func(a, b error) int { return lineOf(a) - lineOf(b) })
	return errors.Join(all...)
}

// follows reports whether a wrong value may be the consequence of a mistake in the form: of a
// known field, which is that of the value, or which the message names.
func (s Source) follows(value *FieldError, form error) bool {
	mistake := new(FieldError)
	if !errors.As(form, &mistake) || s.lines[mistake.Path] == 0 {
		return false
	}
	name := mistake.Path[strings.LastIndex(mistake.Path, ".")+1:]
	words := strings.FieldsFunc(value.Message, func(r rune) bool { return !unicode.IsLetter(r) })
	return value.Path == mistake.Path || slices.Contains(words, name)
}

// split returns the errors that err joins.
func split(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// lineOf returns 0 for an error without a line.
func lineOf(err error) int {
	field := new(FieldError)
	if errors.As(err, &field) {
		return field.Line
	}
	return 0
}
