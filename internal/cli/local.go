package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubectl"
)

// readLocalKubeconfig is readAdminKubeconfig with the server's listening address
// in place of serving.externalHost, which may not resolve in a container or may
// lead through a load balancer to another server.
func readLocalKubeconfig(cmd *cobra.Command, flags *configFlags) ([]byte, error) {
	data, err := readAdminKubeconfig(cmd, flags)
	if err != nil {
		return nil, err
	}
	cfg, err := completed(cmd, flags)
	if err != nil {
		return nil, err
	}
	return localKubeconfig(data, &cfg.Serving)
}

// ifRunning calls use with the kubeconfig of readLocalKubeconfig if err, of the same work on a
// stopped server, is that a server uses the data directory. Otherwise it returns err.
func ifRunning(cmd *cobra.Command, flags *configFlags, err error, use func(kubeconfig []byte) error) error {
	if !errors.Is(err, datadir.ErrLocked) {
		return err
	}
	kubeconfig, err := readLocalKubeconfig(cmd, flags)
	if err != nil {
		return err
	}
	return use(kubeconfig)
}

// localAddress returns the URL of the server in its kubeconfig, and how clients on this
// machine reach it.
func localAddress(cfg *config.ServerConfiguration) (kubectl.Address, error) {
	data, err := os.ReadFile(cfg.Kubeconfig.Path)
	if err != nil {
		return kubectl.Address{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	named, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return kubectl.Address{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if data, err = localKubeconfig(data, &cfg.Serving); err != nil {
		return kubectl.Address{}, err
	}
	local, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return kubectl.Address{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return kubectl.Address{Server: named.Host, Local: local.Host, TLSServerName: local.ServerName}, nil
}

// localKubeconfig replaces the host, and keeps the port, which may have been
// chosen at the start. The serving certificate has each of these addresses; one
// that is configured has the name in the kubeconfig.
func localKubeconfig(data []byte, serving *config.Serving) ([]byte, error) {
	address := net.ParseIP(serving.BindAddress)
	if address == nil {
		return data, nil
	}
	if address.IsUnspecified() {
		address = net.IPv4(127, 0, 0, 1) // the IPv6 wildcard listens for it too
	}
	loaded, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for _, cluster := range loaded.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig: %w", err)
		}
		if serving.CertFile != "" {
			cluster.TLSServerName = server.Hostname()
		}
		local, err := kubeconfig.Local(cluster)
		if err != nil {
			return nil, err
		}
		if local != "" {
			cluster.Server = local
			continue
		}
		server.Host = net.JoinHostPort(address.String(), server.Port())
		cluster.Server = server.String()
	}
	if data, err = clientcmd.Write(*loaded); err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	return data, nil
}
