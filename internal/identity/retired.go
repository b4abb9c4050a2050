package identity

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// retiredRecheck is the time between two checks of the config map: the controller of
// Kubernetes may have written it from an older read.
const retiredRecheck = 2 * time.Minute

// DropRetired removes authorities that a rotation has replaced from the config map for
// aggregated API servers, until ctx ends.
func (i *Identity) DropRetired(ctx context.Context, config *rest.Config) {
	client, err := corev1.NewForConfig(config)
	if err != nil {
		i.config.Log.Error("aggregated API servers go on trusting authorities that a rotation has replaced", "error", err)
		return
	}
	for {
		changed := i.certificates.Changed()
		retired, err := i.certificates.Retired()
		if err == nil && retired != nil {
			err = dropAuthorities(ctx, client, retired)
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

// dropAuthorities removes the retired certificates from the config map for aggregated API
// servers. The last certificate of a list stays.
func dropAuthorities(ctx context.Context, client corev1.ConfigMapsGetter, retired func(*x509.Certificate) bool) error {
	maps := client.ConfigMaps(metav1.NamespaceSystem)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		dropped := false
		found, err := maps.Get(ctx, kube.AuthenticationConfigMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, key := range []string{"client-ca-file", "requestheader-client-ca-file"} {
			list, err := cert.ParseCertsPEM([]byte(found.Data[key]))
			if err != nil {
				continue // empty, or not written by upstream's controller
			}
			kept := slices.DeleteFunc(slices.Clone(list), retired)
			if len(kept) == len(list) || len(kept) == 0 {
				continue
			}
			encoded, err := cert.EncodeCertificates(kept...)
			if err != nil {
				return err
			}
			found.Data[key], dropped = string(encoded), true
		}
		if !dropped {
			return nil
		}
		_, err = maps.Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("remove replaced authorities from config map %s/%s: %w", metav1.NamespaceSystem,
			kube.AuthenticationConfigMap, err)
	}
	return nil
}
