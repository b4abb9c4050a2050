package crds

import (
	"context"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// goneCheck is how often CRDs are read that this server has written and its
// informer has not told of. Usually there are none.
const goneCheck = time.Minute

// dropGone removes CRDs from the catalog that are not stored any more, until ctx
// ends. The informer does not tell of the deletion of a CRD that was also
// created while its watch was interrupted. read gets the stored state of a CRD;
// if it fails, the CRD stays until the next check.
func dropGone(ctx context.Context, catalog *catalog, read func(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error)) {
	ticker := time.NewTicker(goneCheck)
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
				catalog.gone(crd)
			}
		}
	}
}
