package planes

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// objectQuota returns the admission that refuses creations when the control plane has the number
// of objects of its quota. Creations in flight at that moment, and those of its own server and
// controllers, go beyond it.
func (p *plane) objectQuota() controlplane.Admission {
	var mu sync.Mutex
	atMost := int64(-1) // stored objects, not less than there are; negative before the first count
	validate := func(ctx context.Context, attributes admission.Attributes) error {
		p.mu.Lock()
		quota, server := p.spec.Quota.Objects, p.server
		p.mu.Unlock()
		if quota == 0 || server == nil || !isStored(attributes) || ctx.Value(fromClient{}) == nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if atMost < 0 || atMost >= quota {
			count, err := server.Objects(ctx)
			if err != nil {
				return apierrors.NewInternalError(err) // no lack of rights
			}
			atMost = count
		}
		if atMost >= quota {
			return admission.NewForbidden(attributes, fmt.Errorf("the control plane has %d objects, of at most %d: "+
				"delete some, or raise spec.quota.objects of the ControlPlane %s on its server", atMost, quota, p.name))
		}
		atMost++
		return nil
	}
	return controlplane.Admission{Name: "quota", Operations: []admission.Operation{admission.Create}, Validate: validate}
}

// isStored reports whether a creation makes an object in the store.
func isStored(attributes admission.Attributes) bool {
	group := attributes.GetResource().Group
	return !attributes.IsDryRun() && attributes.GetSubresource() == "" && group != "authentication.k8s.io" &&
		group != "authorization.k8s.io"
}

// fromClient is the key of a value in the contexts of the requests of clients. Those of the control plane
// itself and its controllers do not have it: a name can be impersonated.
type fromClient struct{}

func markClients(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), fromClient{}, true)))
	})
}
