package identity

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// retiredRecheck is the time between two checks of the config map: the controller of
// Kubernetes may have written it from an older read.
const retiredRecheck = 2 * time.Minute

// DropRetired removes authorities that a rotation has replaced from the config map for
// aggregated API servers, until ctx ends.
func (i *Identity) DropRetired(ctx context.Context, config *rest.Config) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		i.config.Log.Error("aggregated API servers go on trusting authorities that a rotation has replaced", "error", err)
		return
	}
	for {
		changed := i.certificates.Changed()
		retired, err := i.certificates.Retired()
		if err == nil && retired != nil {
			err = kube.DropAuthorities(ctx, client, retired)
		}
		if err != nil && ctx.Err() == nil {
			i.config.Log.Warn("aggregated API servers still trust authorities that a rotation has replaced, trying again",
				"error", err)
		}
		var recheck <-chan time.Time
		if err != nil || retired != nil {
			recheck = time.After(retiredRecheck)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-recheck:
		}
	}
}
