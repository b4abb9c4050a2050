package crds

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
)

// Versions returns the group versions that CRDs serve, in no order.
func (s *Server) Versions() []schema.GroupVersion { return servedVersions(s.catalog.all()) }

// VersionsOf returns the versions of a group that CRDs serve, in no order.
func (s *Server) VersionsOf(group string) []schema.GroupVersion {
	return servedVersions(s.catalog.group(group))
}

func servedVersions(crds []*apiextensionsv1.CustomResourceDefinition) []schema.GroupVersion {
	served := sets.Set[schema.GroupVersion]{}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			if version.Served {
				served.Insert(schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name})
			}
		}
	}
	return served.UnsortedList()
}

// OnVersions calls changed for each group version of a CRD that has changed,
// until remove is called. changed must not block.
func (s *Server) OnVersions(changed func(schema.GroupVersion)) (remove func()) {
	return s.catalog.listen(func(before, after *apiextensionsv1.CustomResourceDefinition) {
		for _, crd := range []*apiextensionsv1.CustomResourceDefinition{before, after} {
			if crd == nil {
				continue
			}
			for _, version := range crd.Spec.Versions {
				changed(schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name})
			}
		}
	})
}

// AwaitAll waits until all CRDs have been read, and returns false if ctx ends
// before.
func (s *Server) AwaitAll(ctx context.Context) bool {
	return cache.WaitFor(ctx, "", s.filled.HasSyncedChecker())
}

// Delegate is the server in the chain. It also lists the paths of custom
// resources, for the index at `/`.
func (s *Server) Delegate() genericapiserver.DelegationTarget {
	return listedPaths{s.GenericAPIServer, s}
}

type listedPaths struct {
	genericapiserver.DelegationTarget
	server *Server
}

// ListedPaths implements [genericapiserver.DelegationTarget].
func (l listedPaths) ListedPaths() []string {
	paths := sets.New(l.DelegationTarget.ListedPaths()...)
	for _, gv := range l.server.Versions() {
		paths.Insert("/apis/"+gv.Group, "/apis/"+gv.String())
	}
	return sets.List(paths)
}
