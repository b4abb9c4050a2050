package suite

import (
	// The features that specs name must be known before the specs are.
	_ "k8s.io/kubernetes/test/e2e/feature"

	// The specs.
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/architecture"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/common"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/invariants"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/lifecycle/bootstrap"
	_ "k8s.io/kubernetes/test/e2e/node"

	// Kubeconfigs of other servers may need the credential plugins, failures
	// are easier to read with upstream's formats.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/kubernetes/test/utils/format"
)
