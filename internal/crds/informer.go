package crds

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
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
