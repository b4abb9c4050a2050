package kube

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// Upstream fact: one function describes all types of Kubernetes
//
// Mirrors: k8s.io/kube-openapi/pkg/common.OpenAPIDefinition
//   k8s.io/kube-openapi/pkg/builder3.openAPI.buildDefinitionRecursively
//   k8s.io/kube-openapi/pkg/builder.openAPI.buildDefinitionRecursively
//   k8s.io/kubernetes/pkg/controlplane/apiserver.CompletedConfig.GenericStorageProviders
// Why: the generated definitions of the types that are served come with those of
//   every workload, which the builders of OpenAPI keep.
// Gain: an idle server takes 48 MB of anonymous memory after 20 s instead of 65 MB (trial).
// Breaks: a type that is newly served has no schema, and OpenAPI cannot be built
//   (any e2e test that uses kubectl apply). TestSchemasOfServedTypesAreComplete fails if
//   another type refers to it.

// servedSchemas are the roots of the schemas that OpenAPI describes: packages
// end with a dot, single types do not.
var servedSchemas = []string{
	"io.k8s.api.admissionregistration.",
	"io.k8s.api.apidiscovery.",
	"io.k8s.api.apiserverinternal.",
	"io.k8s.api.authentication.",
	"io.k8s.api.authorization.",
	"io.k8s.api.autoscaling.v1.Scale", // of custom resources
	"io.k8s.api.certificates.",
	"io.k8s.api.coordination.",
	"io.k8s.api.core.v1.ConfigMap",
	"io.k8s.api.core.v1.ConfigMapList",
	"io.k8s.api.core.v1.Event",
	"io.k8s.api.core.v1.EventList",
	"io.k8s.api.core.v1.Namespace",
	"io.k8s.api.core.v1.NamespaceList",
	"io.k8s.api.core.v1.ResourceQuota",
	"io.k8s.api.core.v1.ResourceQuotaList",
	"io.k8s.api.core.v1.Secret",
	"io.k8s.api.core.v1.SecretList",
	"io.k8s.api.core.v1.ServiceAccount",
	"io.k8s.api.core.v1.ServiceAccountList",
	"io.k8s.api.events.",
	"io.k8s.api.flowcontrol.",
	"io.k8s.api.rbac.",
	"io.k8s.api.storagemigration.",
	"io.k8s.apiextensions-apiserver.",
	"io.k8s.apimachinery.",
	"io.k8s.apiserver.",
	"io.k8s.kube-aggregator.",
}

// definitions are the schemas of the process: those of all servers are the same.
var definitions = struct {
	sync.Mutex
	known map[string]map[string]common.OpenAPIDefinition // by reference style, and whether all
}{known: map[string]map[string]common.OpenAPIDefinition{}}

// OpenAPIDefinitions returns a source of the schemas that the served types reach, or of
// all schemas of Kubernetes. The builders call it for each server and each OpenAPI version,
// with different ways to write references. They change the extensions of the results only:
// everything else is shared.
func OpenAPIDefinitions(all bool) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		definitions.Lock()
		defer definitions.Unlock()
		style := ref(servedSchemas[0])
		key := fmt.Sprint(all, " ", style.String())
		found, ok := definitions.known[key]
		if !ok {
			// The function is idempotent: GenericOptions wraps this source in it once more.
			found = openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)(ref)
			if !all {
				found = reachable(found)
			}
			if strings.HasPrefix(style.String(), "#/components/schemas/") {
				for name, definition := range found {
					// the builder of version 3 does it, and copies what it changes
					definition.Schema = *util.WrapRefs(&definition.Schema)
					found[name] = definition
				}
			}
			definitions.known[key] = found
		}
		own := maps.Clone(found)
		for name, definition := range own {
			if definition.Schema.Extensions != nil {
				definition.Schema.Extensions = maps.Clone(definition.Schema.Extensions)
				own[name] = definition
			}
		}
		return own
	}
}

// reachable keeps the roots and what they depend on.
func reachable(all map[string]common.OpenAPIDefinition) map[string]common.OpenAPIDefinition {
	kept := map[string]common.OpenAPIDefinition{}
	var visit func(name string)
	visit = func(name string) {
		definition, ok := all[name]
		if _, seen := kept[name]; seen || !ok {
			return
		}
		kept[name] = definition
		for _, dependency := range definition.Dependencies {
			visit(dependency)
		}
	}
	for name := range all {
		for _, root := range servedSchemas {
			if name == root || strings.HasSuffix(root, ".") && strings.HasPrefix(name, root) {
				visit(name)
			}
		}
	}
	return kept
}
