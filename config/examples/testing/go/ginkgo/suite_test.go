// Package ginkgo tests with Ginkgo and controller-runtime's envtest, as the projects
// that kubebuilder makes. envtest starts the programs in KUBEBUILDER_ASSETS, which
// `kube-hyper-mini envtest DIR` makes.
package ginkgo

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var (
	environment *envtest.Environment
	api         client.Client
)

func TestWidgets(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Widgets")
}

var _ = BeforeSuite(func() {
	environment = &envtest.Environment{CRDDirectoryPaths: []string{"../../../widgets.yaml"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	api, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() { Expect(environment.Stop()).To(Succeed()) })
