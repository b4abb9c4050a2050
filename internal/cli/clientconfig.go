package cli

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfigFile returns the rules that load the kubeconfig at path; nil without path.
func kubeconfigFile(path string) *clientcmd.ClientConfigLoadingRules {
	if path == "" {
		return nil
	}
	return &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
}

// loadClientConfig loads a kubeconfig by the rules, or, if they are nil, the
// administrator's, which readAdmin returns.
func loadClientConfig(rules *clientcmd.ClientConfigLoadingRules, overrides *clientcmd.ConfigOverrides, readAdmin func() ([]byte, error)) (clientcmd.ClientConfig, *rest.Config, error) {
	var loader clientcmd.ClientConfig
	if rules != nil {
		loader = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	} else {
		data, err := readAdmin()
		if err != nil {
			return nil, nil, err
		}
		loaded, err := clientcmd.Load(data)
		if err != nil {
			return nil, nil, fmt.Errorf("read the administrator's kubeconfig: %w", err)
		}
		loader = clientcmd.NewDefaultClientConfig(*loaded, overrides)
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, nil, usageError(fmt.Errorf("use the kubeconfig: %w", err))
	}
	return loader, config, nil
}
