package kubeconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Name of the cluster, the user and the context in what [Render] makes.
const Name = "kube-hyper-mini"

// Access is what a client needs to reach the server.
type Access struct {
	// Server is the URL, https://host:port.
	Server string
	// Local is the URL that clients on the server's machine use, if it is another one, and
	// LocalName what they verify the certificate with, if that is another one. See
	// [ForThisMachine].
	Local, LocalName string
	// CAFile verifies the server.
	CAFile string
	// CertFile and KeyFile identify the client.
	CertFile, KeyFile string
}

// Render returns a kubeconfig with the certificates embedded. The same input
// gives the same bytes.
func Render(access Access) ([]byte, error) {
	files := [3][]byte{}
	for i, path := range []string{access.CAFile, access.CertFile, access.KeyFile} {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("make the kubeconfig: %w", err)
		}
		files[i] = data
	}
	cluster := &api.Cluster{Server: access.Server, CertificateAuthorityData: files[0]}
	if access.Local != "" {
		local, err := json.Marshal(local{access.Local, access.LocalName})
		if err != nil {
			return nil, fmt.Errorf("make the kubeconfig: %w", err)
		}
		cluster.Extensions = map[string]runtime.Object{localExtension: &runtime.Unknown{Raw: local,
			ContentType: runtime.ContentTypeJSON}}
	}
	return render(cluster, &api.AuthInfo{ClientCertificateData: files[1], ClientKeyData: files[2]}, Name,
		&api.Context{Cluster: Name, AuthInfo: Name})
}

// render returns a kubeconfig with one context.
func render(cluster *api.Cluster, user *api.AuthInfo, name string, context *api.Context) ([]byte, error) {
	cfg := api.NewConfig()
	cfg.Clusters[context.Cluster], cfg.AuthInfos[context.AuthInfo] = cluster, user
	cfg.Contexts[name], cfg.CurrentContext = context, name
	return write(cfg)
}

// Rename returns a kubeconfig that [Render] has made with another name of its cluster, its
// user and its context.
func Rename(kubeconfig []byte, name string) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the server's kubeconfig: %w", err)
	}
	cluster, user := cfg.Clusters[Name], cfg.AuthInfos[Name]
	if cluster == nil || user == nil {
		return nil, fmt.Errorf("the server's kubeconfig has no cluster or no user %s: remove the file, and the next "+
			"start of the server writes it", Name)
	}
	return render(cluster, user, name, &api.Context{Cluster: name, AuthInfo: name})
}

// Address has the URL of a server in its kubeconfig, and the one for clients on the server's
// machine, if it is another, with the name that they verify the certificate with.
type Address struct{ Server, Local, TLSServerName string }

// Server returns the address in a kubeconfig that [Render] has made. It is zero when there is
// no file.
func Server(path string) (Address, error) {
	cfg, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Address{}, nil
	}
	if err != nil {
		return Address{}, fmt.Errorf("read the server's URL in %s: %w", path, err)
	}
	cluster := cfg.Clusters[Name]
	if cluster == nil {
		return Address{}, fmt.Errorf("read the server's URL in %s: it has no cluster %s; remove the file, and the next "+
			"start writes it", path, Name)
	}
	local, err := readLocal(cluster)
	return Address{cluster.Server, local.Server, local.TLSServerName}, err
}
