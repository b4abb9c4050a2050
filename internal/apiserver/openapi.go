package apiserver

import (
	"k8s.io/kube-openapi/pkg/common"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// openAPIDefinitions are the schemas that OpenAPI is built from.
func openAPIDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return generatedopenapi.GetOpenAPIDefinitions(ref)
}
