package crds

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// resync is that of upstream's informer of CRDs.
const resync = 5 * time.Minute

// lightInformer is the one informer of CRDs in this process. What it holds has
// no schemas.
type lightInformer struct{ informer cache.SharedIndexInformer }

var _ informers.CustomResourceDefinitionInformer = lightInformer{}

func newLightInformer(source cache.ListerWatcher) lightInformer {
	return lightInformer{cache.NewSharedIndexInformerWithOptions(source, &apiextensionsv1.CustomResourceDefinition{},
		cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: cache.Indexers{}})}
}

// Informer implements [informers.CustomResourceDefinitionInformer].
func (l lightInformer) Informer() cache.SharedIndexInformer { return l.informer }

// Lister implements [informers.CustomResourceDefinitionInformer].
func (l lightInformer) Lister() listers.CustomResourceDefinitionLister {
	return listers.NewCustomResourceDefinitionLister(l.informer.GetIndexer())
}

// registrationInformer is the informer for upstream's registration of
// APIServices (k8s.io/kubernetes/pkg/controlplane/controller/crdregistration),
// which lists all CRDs for each version of each CRD. It needs to see one CRD of
// each served group version.
type registrationInformer struct{ lightInformer }

// Lister implements [informers.CustomResourceDefinitionInformer].
func (r registrationInformer) Lister() listers.CustomResourceDefinitionLister {
	return registrationLister{r.lightInformer.Lister()}
}

type registrationLister struct {
	listers.CustomResourceDefinitionLister
}

// List implements [listers.CustomResourceDefinitionLister].
func (l registrationLister) List(selector labels.Selector) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := l.CustomResourceDefinitionLister.List(selector)
	if err != nil {
		return nil, err
	}
	seen := map[schema.GroupVersion]bool{}
	return slices.DeleteFunc(all, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		known := true
		for _, version := range crd.Spec.Versions {
			gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
			if version.Served && !seen[gv] {
				seen[gv], known = true, false
			}
		}
		return known
	}), nil
}
