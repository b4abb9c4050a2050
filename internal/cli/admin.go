package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

// adminFlags are the flags of commands that send requests as the administrator.
type adminFlags struct {
	configFlags
	admin string
	here  bool // new credentials are for this machine: they name its address
}

// addAdmin adds the flags that select the server and the administrator's kubeconfig.
func (f *adminFlags) addAdmin(flags *pflag.FlagSet) {
	f.addServed(flags)
	flags.Var((*fileFlag)(&f.admin), "kubeconfig", "the administrator's kubeconfig (default: that of the server in --config or --data-dir)")
}

// checkAdmin returns an error for flags that exclude each other.
func (f *adminFlags) checkAdmin() error {
	if f.admin != "" && (f.file != "" || f.dataDir != "") {
		return errors.New("--kubeconfig names the server; leave out --config and --data-dir")
	}
	return nil
}

// checkCredentials checks --server, which may be empty, and --expires of commands that issue
// credentials.
func checkCredentials(server string, expires time.Duration) error {
	if server != "" {
		if _, _, err := kubeconfig.HostPort(server); err != nil {
			return fmt.Errorf("--server: %w", err)
		}
	}
	if expires < kubeconfig.MinExpiry {
		return fmt.Errorf("--expires %s is too short; at least %s", expires, kubeconfig.MinExpiry)
	}
	return nil
}

// connect returns the administrator's client and what new credentials name as the
// server: the given URL, or the one in the administrator's kubeconfig.
func (f *adminFlags) connect(ctx context.Context, cmd *cobra.Command, server string) (kubernetes.Interface, kubeconfig.Endpoint, error) {
	data, local, err := f.read(cmd)
	if err != nil {
		return nil, kubeconfig.Endpoint{}, err
	}
	named, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, kubeconfig.Endpoint{}, fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(local)
	if err != nil {
		return nil, kubeconfig.Endpoint{}, fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, kubeconfig.Endpoint{}, fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	config.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, kubeconfig.Endpoint{}, fmt.Errorf("use the administrator's kubeconfig: %w", err)
	}
	_, err = client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if apierrors.IsUnauthorized(err) {
		return nil, kubeconfig.Endpoint{}, admin.Refused(config.Host)
	}
	if err != nil && !apierrors.IsForbidden(err) { // RBAC refuses requests of its own
		return nil, kubeconfig.Endpoint{}, &exitError{ExitNotReady, admin.NoAnswer(config.Host, err)}
	}
	if f.here && config.ServerName == "" {
		named = config
	}
	return client, kubeconfig.Endpoint{Server: cmp.Or(server, named.Host), CA: config.CAData}, nil
}

// read returns the kubeconfig of --kubeconfig, or the administrator's of the local server; and
// the same with the address for this machine.
func (f *adminFlags) read(cmd *cobra.Command) (data, local []byte, err error) {
	if f.admin != "" {
		data, err = readContext(f.admin, "")
		return data, data, err
	}
	if data, err = readAdminKubeconfig(cmd, &f.configFlags); err != nil {
		return nil, nil, err
	}
	local, err = readLocalKubeconfig(cmd, &f.configFlags)
	return data, local, err
}

// requestTimeout bounds each request of a command.
const requestTimeout = 10 * time.Second
