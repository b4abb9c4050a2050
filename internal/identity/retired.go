package identity

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"
)

// Upstream fact: the config map for aggregated API servers only grows
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust.Controller.syncConfigMap
//   k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust.combineCertLists
// Why: its controller adds authorities and drops only those that have expired.
// Gain: an authority that was replaced is not trusted any more.
// Breaks: the two write against each other, or a replaced authority stays.

const (
	// authenticationConfigMap has the authorities that aggregated API servers trust.
	authenticationConfigMap = "extension-apiserver-authentication"
	// retiredRecheck is the delay of a second check of the config map after a change:
	// upstream's controller may have written it from an older read.
	retiredRecheck = 2 * time.Minute
)

// DropRetired removes authorities that a rotation has replaced from the config map for
// aggregated API servers, until ctx ends. Upstream's controller
// (k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust) removes
// expired ones only.
func (i *Identity) DropRetired(ctx context.Context, config *rest.Config) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		i.log.Error("replaced authorities stay trusted by aggregated API servers", "error", err)
		return
	}
	for repeated := false; ; {
		changed := i.store.Changed()
		retired, err := i.store.Retired()
		dropped := false
		if err == nil && retired != nil {
			dropped, err = dropFromConfigMap(ctx, client, retired)
		}
		var recheck <-chan time.Time
		if retired != nil && !repeated || dropped || err != nil {
			recheck = time.After(retiredRecheck)
		}
		if err != nil && ctx.Err() == nil {
			i.log.Warn("replaced authorities are still trusted by aggregated API servers, trying again", "error", err)
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

// dropFromConfigMap reports whether it has removed any.
func dropFromConfigMap(ctx context.Context, client kubernetes.Interface, retired func(*x509.Certificate) bool) (dropped bool, err error) {
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		dropped = false
		found, err := maps.Get(ctx, authenticationConfigMap, metav1.GetOptions{})
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
		return false, fmt.Errorf("remove replaced authorities from config map %s/%s: %w", metav1.NamespaceSystem, authenticationConfigMap, err)
	}
	return dropped, nil
}
