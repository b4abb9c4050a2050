package kube

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Upstream fact: policies that mutate need the list of OpenAPI documents
//
// Mirrors: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.typeConverterManager.Run
//   k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.typeConverterManager.GetTypeConverter
//   k8s.io/apiserver/pkg/admission/plugin/policy/mutating.NewDispatcher
// Why: the plugin reads /openapi/v3 at its start and every five seconds, with the
//   client of the server itself. Until then the requests that a policy matches are
//   refused with 503. A server with such policies is ready when the plugin has
//   read the list; others do not build OpenAPI at their start.
// Gain: the first write after the start is mutated, and servers without such policies
//   build no documents at a start (bench, start).
// Breaks: the plugin reads another path, and a start waits for schemasTimeout of
//   internal/apiserver; or it needs more, and writes are refused after the start. Tests:
//   TestMutatingAdmissionPolicy.

// ReadsPolicySchemas reports whether the request is one of the admission plugin for the
// list of OpenAPI documents. Only the plugin requests it as the server itself.
func ReadsPolicySchemas(r *http.Request) bool {
	requester, ok := request.UserFrom(r.Context())
	return ok && requester.GetName() == user.APIServerUser && r.URL.Path == "/openapi/v3"
}
