package controllers

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/bootstrap"
	"k8s.io/kubernetes/pkg/controller/certificates/approver"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const certificateLife = 365 * 24 * time.Hour // kube-controller-manager's default

func buildServiceAccounts(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	core := env.informers.core().V1()
	c, err := serviceaccountcontroller.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(),
		core.Namespaces(), client,
		serviceaccountcontroller.DefaultServiceAccountsControllerOptions())
	return func(ctx context.Context) { c.Run(ctx, workers) }, err
}

func buildRootCA(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	rootCA, err := os.ReadFile(env.config.Files.ServerCA)
	if err != nil {
		return nil, fmt.Errorf("read the CA to publish: %w", err)
	}
	core := env.informers.core().V1()
	c, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, rootCA)
	return func(ctx context.Context) { c.Run(ctx, workers) }, err
}

func buildTokens(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	key, err := keyutil.PrivateKeyFromFile(env.config.Files.ServiceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("read the service account key: %w", err)
	}
	rootCA, err := os.ReadFile(env.config.Files.ServerCA)
	if err != nil {
		return nil, fmt.Errorf("read the CA to publish: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := env.informers.core().V1()
	c, err := serviceaccountcontroller.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(),
		core.Secrets(), client,
		serviceaccountcontroller.TokensControllerOptions{TokenGenerator: generator, RootCA: rootCA})
	return func(ctx context.Context) { c.Run(ctx, workers) }, err
}

// checkCSRSigning checks that there is a key that signs.
func checkCSRSigning(env *environment) notRun {
	pair := env.config.Files.ClientSigner
	if _, err := os.Stat(pair); os.IsNotExist(err) {
		return "the server has no key of the client CA, so that " + pair + " does not exist"
	}
	return ""
}

// buildCSRSigning builds the signer of kubernetes.io/kube-apiserver-client requests. The
// other signers are for kubelets.
func buildCSRSigning(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	pair := env.config.Files.ClientSigner
	// One file has the certificate and its key: the controller would read a pair of two files
	// while a rotation has replaced one of them.
	requests := certificates.New(env.informers, "", nil).V1().CertificateSigningRequests()
	c, err := signer.NewKubeAPIServerClientCSRSigningController(ctx, client, requests, pair, pair, certificateLife)
	return func(ctx context.Context) { c.Run(ctx, workers) }, err
}

func buildCSRApproving(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	requests := certificates.New(env.informers, "", nil).V1().CertificateSigningRequests()
	c := approver.NewCSRApprovingController(ctx, client, requests)
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func buildCSRCleaner(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	requests := certificates.New(env.informers, "", nil).V1().CertificateSigningRequests()
	c := cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), requests)
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func buildClusterRoleAggregation(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	roles := rbac.New(env.informers, "", nil).V1().ClusterRoles()
	c := clusterroleaggregation.NewClusterRoleAggregation(roles, client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func buildBootstrapSigner(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	core := env.informers.core().V1()
	c, err := bootstrap.NewSigner(client, core.Secrets(), core.ConfigMaps(), bootstrap.DefaultSignerOptions())
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func buildTokenCleaner(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	c, err := bootstrap.NewTokenCleaner(client, env.informers.core().V1().Secrets(),
		bootstrap.DefaultTokenCleanerOptions())
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}
