package kube

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"
)

// Upstream fact: the config map for aggregated API servers only grows
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust.Controller.syncConfigMap
//   k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust.combineCertLists
// Why: its controller adds authorities and drops only those that have expired.
// Gain: an authority that was replaced is not trusted any more.
// Breaks: the two write against each other, or a replaced authority stays. Tests:
//   TestRotationWithAnAggregatedServer.

// AuthenticationConfigMap is the name of the config map in kube-system with the
// authorities that aggregated API servers trust.
const AuthenticationConfigMap = "extension-apiserver-authentication"

// DropAuthorities removes the retired certificates from the config map for aggregated API
// servers. The last certificate of a list stays.
func DropAuthorities(ctx context.Context, client kubernetes.Interface, retired func(*x509.Certificate) bool) error {
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		dropped := false
		found, err := maps.Get(ctx, AuthenticationConfigMap, metav1.GetOptions{})
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
			AuthenticationConfigMap, err)
	}
	return nil
}
