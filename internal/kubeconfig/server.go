package kubeconfig

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// localExtension is the extension of a cluster with the address for clients on the
// server's machine.
const localExtension = "kube-hyper-mini.io/local"

// local is the content of the extension.
type local struct {
	Server        string `json:"server"`
	TLSServerName string `json:"tlsServerName,omitempty"`
}

// ForThisMachine returns the kubeconfig of the server of this machine with the address that
// [Render] has written for it, if there is one: the other may not resolve here, or lead to
// another server.
func ForThisMachine(kubeconfig []byte) ([]byte, error) {
	return ChangeClusters(kubeconfig, func(cluster *api.Cluster) error {
		local, err := readLocal(cluster)
		if local.Server != "" {
			cluster.Server, cluster.TLSServerName = local.Server, local.TLSServerName
		}
		return err
	})
}

// readLocal returns the extension; zero if there is none.
func readLocal(cluster *api.Cluster) (content local, err error) {
	if extension, ok := cluster.Extensions[localExtension].(*runtime.Unknown); ok {
		if err = json.Unmarshal(extension.Raw, &content); err != nil {
			err = fmt.Errorf("read the extension %s of the kubeconfig: %w", localExtension, err)
		}
	}
	return content, err
}

// CheckEmbedded returns an error if a kubeconfig is not as [Render] makes them: if it runs
// a program, or names files.
func CheckEmbedded(kubeconfig []byte) error {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	const remedy = "which the kubeconfig of a server does not have: remove the file, and the next start writes it"
	for name, user := range cfg.AuthInfos {
		switch {
		case user.Exec != nil:
			return fmt.Errorf("the user %q has exec, %s", name, remedy)
		case user.AuthProvider != nil:
			return fmt.Errorf("the user %q has auth-provider, %s", name, remedy)
		case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "":
			return fmt.Errorf("the user %q names a file, %s", name, remedy)
		}
	}
	for name, cluster := range cfg.Clusters {
		if cluster.CertificateAuthority != "" {
			return fmt.Errorf("the cluster %q names a file, %s", name, remedy)
		}
	}
	return nil
}

// SetServer returns the kubeconfig with another URL of the server. tlsName, unless it
// is empty, is the name that clients verify the server's certificate with.
func SetServer(kubeconfig []byte, server, tlsName string) ([]byte, error) {
	return ChangeClusters(kubeconfig, func(cluster *api.Cluster) error {
		cluster.Server, cluster.TLSServerName, cluster.Extensions = server, tlsName, nil
		return nil
	})
}

// ChangeClusters returns the kubeconfig after change was called with each cluster in it.
func ChangeClusters(kubeconfig []byte, change func(*api.Cluster) error) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for _, cluster := range cfg.Clusters {
		if err := change(cluster); err != nil {
			return nil, err
		}
	}
	return write(cfg)
}

func write(cfg *api.Config) ([]byte, error) {
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("make the kubeconfig: %w", err)
	}
	return out, nil
}
