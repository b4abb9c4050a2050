package crds

import (
	"context"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// deletedCheckInterval is the interval at which dropDeleted reads CRDs. Usually it has
// none to read.
const deletedCheckInterval = time.Minute

// dropDeleted removes CRDs from the catalog that are not stored any more, until ctx
// ends. It reads the CRDs that this server has written and the informer has not
// received: the informer has no event for a CRD that was created and deleted while its
// watch was interrupted. read gets the stored state of a CRD; if it fails, the CRD
// stays until the next check.
func dropDeleted(ctx context.Context, catalog *catalog, read func(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error)) {
	ticker := time.NewTicker(deletedCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, crd := range catalog.unconfirmed() {
			reading, cancel := context.WithTimeout(ctx, fetchTimeout)
			_, err := read(reading, crd.Name)
			cancel()
			if apierrors.IsNotFound(err) {
				catalog.deleted(crd)
			}
		}
	}
}
