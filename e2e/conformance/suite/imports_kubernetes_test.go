//go:build kubernetes

package suite

import (
	// The specs of types that only the profile kubernetes has. The other lists
	// do without: these packages make the suite slower to build and to start.
	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

func init() { complete = append(complete, specs.Kubernetes) }
