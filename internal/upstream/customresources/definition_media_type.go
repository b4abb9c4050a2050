package customresources

import (
	"net/http"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Upstream fact: what the handler of CRDs negotiates with
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.completedConfig.New
//   k8s.io/apiserver/pkg/endpoints/handlers.ListResource
//   k8s.io/apiserver/pkg/endpoints/handlers.RequestScope.AllowsMediaTypeTransform
// Why: tables and metadata need no schemas, and the handler does not tell the storage what
//   it has negotiated.
// Gain: `kubectl get crds` and the garbage collector read CRDs without schemas (bench,
//   crds).
// Breaks: these lists read whole CRDs, or an answer lacks the schemas. Tests:
//   TestDefinitionsMediaType, TestMetadataOfDefinitions.

// definitionsScope has what the negotiation of lists and watches of CRDs reads. All other
// fields are for other requests.
var definitionsScope = &handlers.RequestScope{TableConvertor: rest.NewDefaultTableConvertor(apiextensions.Resource("customresourcedefinitions"))}

// DefinitionsMediaType returns the content of the answer to a list or a watch of CRDs, with
// the error with which the handler of CRDs refuses the request.
func DefinitionsMediaType(r *http.Request) (negotiation.MediaTypeOptions, error) {
	media, _, err := negotiation.NegotiateOutputMediaType(r, apiserver.Codecs, definitionsScope)
	return media, err
}
