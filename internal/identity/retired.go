package identity

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// retiredRecheck is the delay of a second check of the config map after a change: the
// controller of Kubernetes may have written it from an older read.
const retiredRecheck = 2 * time.Minute

// DropRetired removes authorities that a rotation has replaced from the config map for
// aggregated API servers, until ctx ends.
func (i *Identity) DropRetired(ctx context.Context, config *rest.Config) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		i.config.Log.Error("aggregated API servers go on trusting authorities that a rotation has replaced", "error", err)
		return
	}
	for repeated := false; ; {
		changed := i.certificates.Changed()
		retired, err := i.certificates.Retired()
		dropped := false
		if err == nil && retired != nil {
			dropped, err = kube.DropAuthorities(ctx, client, retired)
		}
		var recheck <-chan time.Time
		if retired != nil && !repeated || dropped || err != nil {
			recheck = time.After(retiredRecheck)
		}
		if err != nil && ctx.Err() == nil {
			i.config.Log.Warn("aggregated API servers still trust authorities that a rotation has replaced, trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			repeated = false
		case <-recheck:
			repeated = true
		}
	}
}
