package crds

import (
	"context"
	"time"

	client "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/apiapproval"
	"k8s.io/apiextensions-apiserver/pkg/controller/establish"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apiextensions-apiserver/pkg/controller/status"
	"k8s.io/klog/v2"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// workers is the number of workers that upstream gives to each controller that has
// several.
const workers = 5

// controllers are upstream's, over light CRDs.
type controllers struct{ run []func(context.Context) }

func (s *Server) newControllers(crds client.CustomResourceDefinitionsGetter,
	alone func(context.Context) (bool, error)) (*controllers, *establish.EstablishingController, error) {
	reader := customresources.LightDefinitions{Metadata: s.definitions.getMetadata, Lighten: lighten}
	crds = reader.StatusClient(crds)
	informer := s.informer
	naming := status.NewNamingConditionController(klog.Background(), informer, crds)
	establishing := establish.NewEstablishingController(informer, crds)
	approval := apiapproval.NewKubernetesAPIApprovalPolicyConformantConditionController(informer, crds)
	finalizing := finalizer.NewCRDFinalizer(informer, crds, s.front)

	if err := customresources.EstablishAccepted(informer, establishing,
		func() time.Duration { return delayOf(alone) }); err != nil {
		return nil, nil, err
	}
	return &controllers{run: []func(context.Context){
		naming.RunWithContext,
		establishing.RunWithContext,
		func(ctx context.Context) { approval.RunWithContext(workers, ctx) },
		func(ctx context.Context) { finalizing.RunWithContext(workers, ctx) },
		s.front.releaseIdle,
	}}, establishing, nil
}

// delayOf returns [customresources.EstablishDelay], or 0 for a single server.
func delayOf(alone func(context.Context) (bool, error)) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	if isAlone, err := alone(ctx); err == nil && isAlone {
		return 0
	}
	return customresources.EstablishDelay
}
