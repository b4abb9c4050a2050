package customresources

import (
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Upstream fact: the response to a request for an object that there is not
//
// Mirrors: k8s.io/apiserver/pkg/endpoints/handlers.GetResource
//   k8s.io/apiserver/pkg/endpoints/handlers.PatchResource
//   k8s.io/apiserver/pkg/endpoints/handlers.DeleteResource
//   k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.serveResource
// Why: upstream's handler builds the serving machinery of a type before it answers with
//   404, before admission.
// Gain: a user with view who reads one object of each of 2,000 types of 32 kB takes no
//   memory instead of 6.6 GB (trial).
// Breaks: clients get another error for an object that there is not. A body that is invalid
//   gets 404 instead of 400. Tests: TestAbsentObjects.

// NamesObject reports whether upstream's handler answers the request with 404 if the type
// has no objects, unless its body is invalid. Other requests, those with errors among them,
// are left to that handler.
func NamesObject(r *http.Request, info *request.RequestInfo, crd *apiextensionsv1.CustomResourceDefinition) bool {
	if info.Name == "" || !servedPlainly(crd, info) ||
		crd.Spec.Scope == apiextensionsv1.NamespaceScoped && info.Namespace == "" {
		return false
	}
	if _, _, err := negotiation.NegotiateOutputMediaType(r, apiextensionsapiserver.Codecs,
		negotiation.DefaultEndpointRestrictions); err != nil {
		return false
	}
	switch info.Verb {
	case "get":
		var options metav1.GetOptions
		return decodeQuery(r, &options) && !r.URL.Query().Has("export") &&
			(options.ResourceVersion == "" || options.ResourceVersion == "0")
	case "delete":
		var options metav1.DeleteOptions
		return info.Subresource == "" && decodeQuery(r, &options) && len(validation.ValidateDeleteOptions(&options)) == 0
	case "patch":
		contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		patch := types.PatchType(contentType)
		var options metav1.PatchOptions
		return (patch == types.JSONPatchType || patch == types.MergePatchType) && // apply creates the object
			decodeQuery(r, &options) && len(validation.ValidatePatchOptions(&options, patch)) == 0
	}
	return false
}

func decodeQuery(r *http.Request, options runtime.Object) bool {
	return internalversionscheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, options) == nil
}

// WriteNotFound answers that there is no object of that name.
func WriteNotFound(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) {
	write := func(w http.ResponseWriter, r *http.Request) {
		err := apierrors.NewNotFound(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name)
		version := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
		responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs, version, w, r)
	}
	metrics.InstrumentHandlerFunc(strings.ToUpper(info.Verb), info.APIGroup, info.APIVersion,
		info.Resource, info.Subresource,
		metrics.CleanScope(info), metrics.APIServerComponent, false, "", write)(w, r)
}
