package kubeconfig

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Endpoint is the URL of a server and the CA that verifies it.
type Endpoint struct {
	// Server is the URL, https://host:port.
	Server string
	// TLSServerName is what clients verify the certificate with, if it is not the host of the URL.
	TLSServerName string
	// CA is PEM.
	CA []byte
}

// RenderUser returns a kubeconfig for the credentials. namespace is kubectl's default
// namespace; it may be empty.
func RenderUser(endpoint Endpoint, user, namespace string, credentials *Credentials) ([]byte, error) {
	return render(&api.Cluster{Server: endpoint.Server, TLSServerName: endpoint.TLSServerName,
		CertificateAuthorityData: endpoint.CA},
		&api.AuthInfo{ClientCertificateData: credentials.Cert, ClientKeyData: credentials.Key, Token: credentials.Token},
		user+"@"+Name, &api.Context{Cluster: Name, AuthInfo: user, Namespace: namespace})
}

// InClusterMount is the directory in which client-go's rest.InClusterConfig and its like read
// the files of WriteInCluster, except env. No variable changes it: bind-mount or link the
// directory there.
const InClusterMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// WriteInCluster writes the files of an in-cluster configuration: token, CA and
// namespace, and the variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT in
// env, for a shell or a systemd EnvironmentFile. It replaces each file atomically, the
// token last, which only its owner reads; the directory, if it is made, is the owner's only.
// Programs read the token again once a minute, so another call renews it.
func WriteInCluster(dir string, endpoint Endpoint, namespace string, credentials *Credentials) error {
	server, err := config.ParseServerURL(endpoint.Server)
	if err != nil {
		return err
	}
	env := fmt.Sprintf("KUBERNETES_SERVICE_HOST=%s\nKUBERNETES_SERVICE_PORT=%s\n", server.Hostname(),
		cmp.Or(server.Port(), "443"))
	for _, file := range []struct {
		name, content string
		mode          os.FileMode
	}{
		{"ca.crt", string(endpoint.CA), 0o644},
		{"namespace", namespace, 0o644},
		{"env", env, 0o644},
		{"token", credentials.Token, 0o600},
	} {
		if err := datadir.WriteFile(filepath.Join(dir, file.name), []byte(file.content), file.mode); err != nil {
			return err
		}
	}
	return nil
}
