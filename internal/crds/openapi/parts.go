package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// The sections of both kinds of documents, by index. v3 has no parameters.
const (
	pathsSection = iota
	schemasSection
	parametersSection
)

// v3Part builds the v3 document of one version of a definition, without the members that the
// document has already.
func v3Part(definition *apiextensionsv1.CustomResourceDefinition, version string, taken *memberSet) (*part, error) {
	built, err := customresources.BuildV3(definition, version)
	if err != nil {
		return nil, err
	}
	var paths, schemas map[string]json.Marshaler
	if built.Paths != nil {
		paths = newMembers(built.Paths.Paths, pathsSection, taken)
	}
	if built.Components != nil {
		schemas = newMembers(built.Components.Schemas, schemasSection, taken)
	}
	return &part{
		sections: []map[string]json.Marshaler{paths, schemas},
		protobuf: func() ([]byte, error) {
			encoded, err := json.Marshal(struct {
				customresources.V3Head
				Paths      map[string]json.Marshaler            `json:"paths"`
				Components map[string]map[string]json.Marshaler `json:"components"`
			}{customresources.NewV3Head(), paths, map[string]map[string]json.Marshaler{"schemas": schemas}})
			if err != nil {
				return nil, err
			}
			return handler3.ToV3ProtoBinary(encoded)
		},
	}, nil
}

// newV3Encoder begins a v3 document. In protobuf each part brings the head along.
func newV3Encoder(e *customresources.Encoding) (encoder, error) {
	if e.Protobuf {
		return newProtobufEncoder(nil), nil
	}
	head, err := json.Marshal(customresources.NewV3Head())
	if err != nil {
		return nil, fmt.Errorf("encode the head of an OpenAPI document: %w", err)
	}
	paths := strings.TrimSuffix(string(head), "}") + `,"paths":{`
	return newJSONEncoder([]string{paths, `},"components":{"schemas":{`}, "}}}"), nil
}

// v2Part builds the v2 document of one version of a definition, without the members that the
// document has already.
func v2Part(definition *apiextensionsv1.CustomResourceDefinition, version string, taken *memberSet) (*part, error) {
	built, err := customresources.BuildV2(definition, version)
	if err != nil {
		return nil, err
	}
	var paths map[string]json.Marshaler
	if built.Paths != nil {
		paths = newMembers(built.Paths.Paths, pathsSection, taken)
	}
	schemas := newMembers(built.Definitions, schemasSection, taken)
	built.Definitions = handler.PruneDefaults(built.Definitions)
	for name, schema := range built.Definitions {
		schemas[name] = schema
	}
	parameters := newMembers(built.Parameters, parametersSection, taken)
	return &part{
		sections: []map[string]json.Marshaler{paths, schemas, parameters},
		protobuf: func() ([]byte, error) {
			encoded, err := built.MarshalJSON()
			if err != nil {
				return nil, err
			}
			return handler.ToProtoBinary(encoded)
		},
	}, nil
}

// newMembers removes the members from a section that the document has already, and
// returns the others.
func newMembers[V json.Marshaler](members map[string]V, section int, taken *memberSet) map[string]json.Marshaler {
	kept := make(map[string]json.Marshaler, len(members))
	for name, member := range members {
		if taken.add(section, name) {
			kept[name] = member
		} else {
			delete(members, name)
		}
	}
	return kept
}

// v2Sections are the members of a v2 document that parts are added to.
var v2Sections = []string{"paths", "definitions", "parameters"}

// buildV2 builds the v2 document of all types. Where base and a definition have
// a path or a schema of the same name, base's is kept.
func (h *Handler) buildV2(r *http.Request, known index, e *customresources.Encoding) ([]byte, error) {
	base, _, err := h.fromBase(r, http.MethodGet, v2Path, "application/json")
	if err != nil {
		return nil, err
	}
	taken := &memberSet{}
	prefixes, err := v2Prefixes(base, taken)
	if err != nil {
		return nil, fmt.Errorf("read %s of the other API types: %w", v2Path, err)
	}
	var out encoder
	if e.Protobuf {
		message, _, err := h.fromBase(r, http.MethodGet, v2Path, "application/"+e.SubType)
		if err != nil {
			return nil, err
		}
		out = newProtobufEncoder(message)
	} else {
		out = newJSONEncoder(prefixes, "}}")
	}
	return h.build(r.Context(), known.names(), out, func(d *apiextensionsv1.CustomResourceDefinition) ([]*part, error) {
		var parts []*part
		for _, version := range d.Spec.Versions {
			if !version.Served {
				continue
			}
			p, err := v2Part(d, version.Name, taken)
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
		return parts, nil
	})
}

// v2Prefixes splits a v2 document at the end of each section, so that members
// can be added there, and records the members that it has.
func v2Prefixes(document []byte, taken *memberSet) ([]string, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(document, &top); err != nil {
		return nil, err
	}
	sections := make([]string, len(v2Sections))
	for i, name := range v2Sections {
		sections[i] = "{"
		if top[name] == nil {
			continue
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(top[name], &members); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for member := range members {
			taken.add(i, member)
		}
		sections[i] = strings.TrimSuffix(strings.TrimSpace(string(top[name])), "}")
		delete(top, name)
	}
	head, err := json.Marshal(top)
	if err != nil {
		return nil, err
	}
	first := strings.TrimSuffix(string(head), "}")
	if len(top) > 0 {
		first += ","
	}
	prefixes := make([]string, len(v2Sections))
	for i, name := range v2Sections {
		prefixes[i] = `},"` + name + `":` + sections[i]
	}
	prefixes[0] = first + `"paths":` + sections[0]
	return prefixes, nil
}
