package controllers

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"

	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
)

// remoteTypes implements Types for API servers in other processes.
type remoteTypes struct {
	servedtypes.Follower
	served map[schema.GroupVersionResource]bool
	stop   func() // stops the informers and waits for them
}

// newRemoteTypes queries the discovery of the API server and follows its CRDs and
// APIServices until stop. The built-in types change only when the API server is
// restarted, so they are read once.
func newRemoteTypes(ctx context.Context, client *rest.Config) (*remoteTypes, error) {
	discoverer, err := newDiscoveryClient(client)
	if err != nil {
		return nil, err
	}
	_, lists, err := discoverer.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // aggregated API servers serve no built-in types
		return nil, fmt.Errorf("query discovery: %w", err)
	}
	t := &remoteTypes{served: resourcesOf(lists)}
	return t, t.follow(ctx, client)
}

func (t *remoteTypes) follow(ctx context.Context, client *rest.Config) error {
	metadataClient, err := metadata.NewForConfig(client)
	if err != nil {
		return fmt.Errorf("make the metadata client: %w", err)
	}
	aggregator, err := aggregatorclient.NewForConfig(client)
	if err != nil {
		return fmt.Errorf("make the client for APIServices: %w", err)
	}
	crds := metadatainformer.NewSharedInformerFactory(metadataClient, 0)
	resource := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	definitions := crds.ForResource(resource).Informer()
	t.CRDs = servedtypes.Informer{SharedIndexInformer: definitions}
	apiServices := aggregatorinformers.NewSharedInformerFactory(aggregator, 0)
	t.APIServices = apiServices.Apiregistration().V1().APIServices().Informer()
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	crds.Start(runCtx.Done())
	apiServices.Start(runCtx.Done())
	t.stop = func() {
		cancel()
		crds.Shutdown()
		apiServices.Shutdown()
	}
	if !cache.WaitForCacheSync(ctx.Done(), definitions.HasSynced, t.APIServices.HasSynced) {
		t.stop()
		return fmt.Errorf("list CRDs and APIServices: %w", context.Cause(ctx))
	}
	return nil
}

// Serves implements [Types].
func (t *remoteTypes) Serves(resource schema.GroupVersionResource) bool { return t.served[resource] }
