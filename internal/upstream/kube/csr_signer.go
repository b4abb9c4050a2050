package kube

import (
	"context"
	"time"

	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
)

// Upstream fact: the signer of client certificates reads one file as certificate and key
//
// Mirrors: k8s.io/kubernetes/pkg/controller/certificates/signer.NewKubeAPIServerClientCSRSigningController
//   k8s.io/kubernetes/pkg/controller/certificates/signer.newCAProvider
//   k8s.io/kubernetes/pkg/controller/certificates/signer.caProvider.setCA
//   k8s.io/apiserver/pkg/server/dynamiccertificates.DynamicCertKeyPairContent.loadCertKeyPair
// Why: it reads a pair of two files while a rotation has replaced one of them, and it
//   refuses a bundle of certificates. A file that has one certificate and its key is
//   replaced in one step.
// Gain: no certificate is signed with a pair that does not belong together.
// Breaks: the controller does not start, or signs nothing. TestCertificateSigningRequest and TestRotation fail.

// NewClientCSRSigner returns the controller that signs approved requests for client
// certificates of the API server. Pair is the path of a file with the certificate of the
// authority and its key, life that of the certificates at most. The controller reads the
// file again when it changes.
func NewClientCSRSigner(ctx context.Context, client kubernetes.Interface, requests certificatesinformers.CertificateSigningRequestInformer, pair string, life time.Duration) (*signer.CSRSigningController, error) {
	return signer.NewKubeAPIServerClientCSRSigningController(ctx, client, requests, pair, pair, life)
}
