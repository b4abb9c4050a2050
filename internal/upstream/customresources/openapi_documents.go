package customresources

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/munnerz/goautoneg"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Upstream fact: the OpenAPI documents of custom resources
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/controller/openapi.createSpecCache
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi.generateCRDHash
//   k8s.io/apiextensions-apiserver/pkg/controller/openapi.Controller.updateSpecLocked
//   k8s.io/apiextensions-apiserver/pkg/controller/openapiv3.Controller.buildV3Spec
//   k8s.io/apiextensions-apiserver/pkg/controller/openapiv3.Controller.updateGroupVersion
//   k8s.io/kube-openapi/pkg/handler3.OpenAPIService.HandleGroupVersion
//   k8s.io/kube-openapi/pkg/handler.OpenAPIService.RegisterOpenAPIVersionedService
// Why: the controllers of Kubernetes build the documents of all CRDs at the start
//   and keep them.
// Gain: a CRD whose OpenAPI no client reads has no document in memory: 62 MB of live heap
//   with 2,452 CRDs (bench, crds), of which no OpenAPI was requested.
// Breaks: documents differ from those of kube-apiserver, or a changed CRD keeps its
//   hash. Tests: TestV3DescribesAllDefinitionsOfTheGroupVersion,
//   TestChangedDefinitionHasANewDocument.

// DocumentVersion changes when the OpenAPI documents of a CRD do.
func DocumentVersion(crd *apiextensionsv1.CustomResourceDefinition) []string {
	return []string{crd.Name, string(crd.UID), strconv.FormatInt(crd.Generation, 10)}
}

// V3Head has the version and the title of v3 documents.
type V3Head struct {
	Version string    `json:"openapi"`
	Info    spec.Info `json:"info"`
}

// NewV3Head returns the head of each v3 document of custom resources.
func NewV3Head() V3Head {
	return V3Head{"3.0.0", spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes CRD Swagger", Version: "v0.1.0"}}}
}

// BuildV3 builds the v3 document of one version of a CRD.
func BuildV3(crd *apiextensionsv1.CustomResourceDefinition, version string) (*spec3.OpenAPI, error) {
	return builder.BuildOpenAPIV3(crd, version, builder.Options{IncludeSelectableFields: true})
}

// BuildV2 builds the v2 document of one version of a CRD.
func BuildV2(crd *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Swagger, error) {
	return builder.BuildOpenAPIV2(crd, version, builder.Options{V2: true, IncludeSelectableFields: true})
}

// Encoding is a media type of documents.
type Encoding struct {
	SubType     string // as clients request it, below application/
	ContentType string
	Protobuf    bool
}

// The media types of both kinds of documents. Those with "@" are deprecated.
var (
	V2Encodings = []Encoding{
		{"json", "application/json", false},
		{"com.github.proto-openapi.spec.v2@v1.0+protobuf",
			"application/com.github.proto-openapi.spec.v2.v1.0+protobuf", true},
		{"com.github.proto-openapi.spec.v2.v1.0+protobuf",
			"application/com.github.proto-openapi.spec.v2.v1.0+protobuf", true},
	}
	V3Encodings = []Encoding{
		{"json", "application/json", false},
		{"com.github.proto-openapi.spec.v3@v1.0+protobuf",
			"application/com.github.proto-openapi.spec.v3.v1.0+protobuf", true},
		{"com.github.proto-openapi.spec.v3.v1.0+protobuf",
			"application/com.github.proto-openapi.spec.v3.v1.0+protobuf", true},
	}
)

// Negotiate returns nil if the client accepts none of the Encodings.
func Negotiate(r *http.Request, offered []Encoding) *Encoding {
	accept := r.Header.Get("Accept")
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Type != "application" && clause.Type != "*" {
			continue
		}
		i := slices.IndexFunc(offered, func(e Encoding) bool { return clause.SubType == "*" || clause.SubType == e.SubType })
		if i >= 0 {
			return &offered[i]
		}
	}
	return nil
}
