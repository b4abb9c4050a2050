package kubeconfig

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// localExtension is the extension of a cluster with the URL for clients on the
// server's machine.
const localExtension = "kube-hyper-mini.io/local"

// local is the content of the extension.
type local struct {
	Server string `json:"server"`
}

// Local is the URL for clients on the server's machine that [Render] has written; empty
// if there is none.
func Local(cluster *api.Cluster) (string, error) {
	extension, ok := cluster.Extensions[localExtension].(*runtime.Unknown)
	if !ok {
		return "", nil
	}
	content := local{}
	if err := json.Unmarshal(extension.Raw, &content); err != nil {
		return "", fmt.Errorf("read the extension %s of the kubeconfig: %w", localExtension, err)
	}
	return content.Server, nil
}

// SetServer returns the kubeconfig with another URL of the server. tlsName, unless it
// is empty, is the name that clients verify the server's certificate with.
func SetServer(kubeconfig []byte, server, tlsName string) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for _, cluster := range cfg.Clusters {
		cluster.Server, cluster.TLSServerName, cluster.Extensions = server, tlsName, nil
	}
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("make the kubeconfig: %w", err)
	}
	return out, nil
}
