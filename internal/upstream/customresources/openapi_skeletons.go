package customresources

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Upstream fact: what the OpenAPI of a custom resource depends on
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.generateBuilder
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.newBuilder
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.buildKubeNative
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.buildListSchema
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.buildRoute
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.descriptionFor
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.getOpenAPIV3Config
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.addEmbeddedProperties
//   k8s.io/apiserver/pkg/endpoints/openapi.ToValidOperationID
// Why: the builder describes all types of Kubernetes anew for each CRD. All but the
//   schema of its kind is the same for CRDs of one group version, scope and set of
//   subresources, apart from the names.
// Gain: the v3 document of a group of 79 CRDs takes 0.2 s of processor time instead of
//   0.5 s (bench, crds).
// Breaks: documents differ from those of kube-apiserver. TestPartsAreThoseOfUpstream
//   compares them.

// shape is what the v3 document of a CRD depends on besides its names and its schema.
type shape struct {
	group, version            string
	namespaced, status, scale bool
	article                   string // of the kind in descriptions: "a", "an" or none
}

// skeleton is the document that upstream builds for a shape, with placeholders for names.
type skeleton struct {
	placeholders apiextensionsv1.CustomResourceDefinitionNames
	kindName     string            // name of the schema of the kind
	paths        map[string]string // encoded, by path
	schemas      map[string]string // encoded, by name, but that of the kind
	root         spec.Schema       // the schema of the kind: the properties of every object
	embedded     spec.Schema       // that of an embedded object
}

// Skeletons builds the skeletons of a document once. It is safe for concurrent use.
type Skeletons struct {
	mu    sync.Mutex
	known map[shape]func() (*skeleton, error)
}

// NewSkeletons returns skeletons that have built none.
func NewSkeletons() *Skeletons { return &Skeletons{known: map[shape]func() (*skeleton, error){}} }

func (s *Skeletons) get(of shape) (*skeleton, error) {
	s.mu.Lock()
	build := s.known[of]
	if build == nil {
		build = sync.OnceValues(func() (*skeleton, error) { return newSkeleton(of) })
		s.known[of] = build
	}
	s.mu.Unlock()
	return build()
}

// plainKind matches kinds that upstream uses in the names of operations as they are.
var plainKind = regexp.MustCompile("^[A-Z][A-Za-z0-9]*$")

// shapeOf reports false if the document of the version depends on more than a [shape],
// its names and its schema.
func shapeOf(definition *apiextensionsv1.CustomResourceDefinition, version string) (shape, bool) {
	names := definition.Spec.Names
	selectable := slices.ContainsFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && len(v.SelectableFields) > 0
	})
	subresources, err := apihelpers.GetSubresourcesForVersion(definition, version)
	if err != nil || selectable || !plainKind.MatchString(names.Kind) || !plainKind.MatchString(names.ListKind) {
		return shape{}, false
	}
	return shape{
		group: definition.Spec.Group, version: version,
		namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped,
		status:     subresources != nil && subresources.Status != nil,
		scale:      subresources != nil && subresources.Scale != nil,
		article:    endpoints.GetArticleForNoun(names.Kind, ""),
	}, true
}

// embeddedProperty is the property of an embedded object in the definition of a skeleton.
const embeddedProperty = "embedded"

// definition returns the CRD that upstream builds the skeleton from. Groups, versions
// and descriptions do not contain its names.
func (s shape) definition() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "PLURAL0NAME", ListKind: "LIST0KIND"}
	for _, kind := range []string{"KIND0NAME", "AKIND0NAME", "KIND0NAMEs"} {
		if endpoints.GetArticleForNoun(kind, "") == s.article {
			names.Kind = kind
		}
	}
	yes := true
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: s.version, Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{},
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				embeddedProperty: {Type: "object", XEmbeddedResource: true, XPreserveUnknownFields: &yes},
			},
		}},
	}
	if s.status {
		version.Subresources.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
	}
	if s.scale {
		version.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{}
	}
	definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: s.group, Names: names, Scope: apiextensionsv1.ClusterScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
	}}
	if s.namespaced {
		definition.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	return definition
}

func newSkeleton(of shape) (*skeleton, error) {
	definition := of.definition()
	built, err := BuildV3(definition, of.version)
	if err != nil {
		return nil, fmt.Errorf("build OpenAPI paths of %s/%s: %w", of.group, of.version, err)
	}
	s := &skeleton{placeholders: definition.Spec.Names, paths: map[string]string{}, schemas: map[string]string{}}
	for path, item := range built.Paths.Paths {
		encoded, err := item.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode the OpenAPI path %s: %w", path, err)
		}
		s.paths[path] = string(encoded)
	}
	for name, schema := range built.Components.Schemas {
		if strings.HasSuffix(name, "."+definition.Spec.Names.Kind) {
			s.kindName, s.root, s.embedded = name, *schema, schema.Properties[embeddedProperty]
			continue
		}
		encoded, err := schema.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode the OpenAPI schema %s: %w", name, err)
		}
		s.schemas[name] = string(encoded)
	}
	if s.kindName == "" {
		return nil, fmt.Errorf("build OpenAPI paths of %s/%s: the document has no schema of its kind", of.group, of.version)
	}
	return s, nil
}

// Part returns what a definition adds to the v3 document of its version, less the members
// that claim returns false for, and false if that depends on more than a shape: then
// [BuildV3] builds it.
func (s *Skeletons) Part(definition *apiextensionsv1.CustomResourceDefinition, version string, claim func(isPath bool, name string) bool) (paths, schemas map[string]json.Marshaler, ok bool, err error) {
	of, ok := shapeOf(definition, version)
	if !ok {
		return nil, nil, false, nil
	}
	skeleton, err := s.get(of)
	if err != nil {
		return nil, nil, false, err
	}
	paths, schemas, err = skeleton.part(definition, version, claim)
	return paths, schemas, err == nil, err
}

func (s *skeleton) part(definition *apiextensionsv1.CustomResourceDefinition, version string, claim func(isPath bool, name string) bool) (paths, schemas map[string]json.Marshaler, err error) {
	names := definition.Spec.Names
	named := func(text string) string {
		text = strings.ReplaceAll(text, s.placeholders.ListKind, names.ListKind)
		text = strings.ReplaceAll(text, s.placeholders.Plural, names.Plural)
		return strings.ReplaceAll(text, s.placeholders.Kind, names.Kind)
	}
	schema, err := s.schema(definition, version)
	if err != nil {
		return nil, nil, err
	}
	paths, schemas = map[string]json.Marshaler{}, map[string]json.Marshaler{}
	if name := named(s.kindName); claim(false, name) {
		schemas[name] = schema
	}
	for name, encoded := range s.schemas {
		if name := named(name); claim(false, name) {
			schemas[name] = json.RawMessage(named(encoded))
		}
	}
	for path, encoded := range s.paths {
		if path := named(path); claim(true, path) {
			paths[path] = json.RawMessage(named(encoded))
		}
	}
	return paths, schemas, nil
}

// schema returns the schema of the kind. As upstream, it has no properties if that of the
// definition is not structural.
func (s *skeleton) schema(definition *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Schema, error) {
	structural, err := structuralOf(definition, version)
	if err != nil {
		return nil, err
	}
	schema := &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
	if structural != nil {
		schema = structural.Unfold().ToKubeOpenAPI()
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			schema.SetProperty(name, s.root.Properties[name])
		}
		s.describeEmbedded(schema)
	}
	schema.AddExtension(endpoints.RouteMetaGVK, []any{
		map[string]any{"group": definition.Spec.Group, "version": version, "kind": definition.Spec.Names.Kind},
	})
	return schema, nil
}

// structuralOf returns nil if the schema is not structural.
func structuralOf(definition *apiextensionsv1.CustomResourceDefinition, version string) (*structuralschema.Structural, error) {
	stored, err := apihelpers.GetSchemaForVersion(definition, version)
	if err != nil || stored == nil || stored.OpenAPIV3Schema == nil {
		return nil, err
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(stored, internal, nil); err != nil {
		return nil, fmt.Errorf("convert the schema of %s: %w", definition.Name, err)
	}
	if validation.SchemaHasInvalidTypes(internal.OpenAPIV3Schema) {
		return nil, nil
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil || len(structuralschema.ValidateStructural(nil, structural)) > 0 {
		return nil, nil
	}
	return structural, nil
}

// describeEmbedded adds the properties of embedded objects.
func (s *skeleton) describeEmbedded(schema *spec.Schema) {
	if schema == nil {
		return
	}
	for name, property := range schema.Properties {
		s.describeEmbedded(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		s.describeEmbedded(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		s.describeEmbedded(schema.AdditionalProperties.Schema)
	}
	if embedded, _ := schema.Extensions.GetBool("x-kubernetes-embedded-resource"); !embedded {
		return
	}
	for name, property := range s.embedded.Properties {
		schema.SetProperty(name, property)
	}
	for _, name := range s.embedded.Required {
		if !slices.Contains(schema.Required, name) {
			schema.Required = append(slices.Clone(schema.Required), name)
		}
	}
}
