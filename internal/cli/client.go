package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/planes"
)

// requestTimeout bounds each request of a command.
const requestTimeout = 10 * time.Second

// clientFlags select a server and the credentials for it, by the rule that the help of the
// root command states.
type clientFlags struct {
	configFlags
	kubeconfig, context string
}

// addClient adds the flags that select the server; usage is that of --kubeconfig.
func (f *clientFlags) addClient(flags *pflag.FlagSet, usage string) {
	f.addPlane(flags)
	flags.Func("kubeconfig", usage, pathFlag(&f.kubeconfig, errNoFile))
}

// checkPlane checks the name of a control plane, which may be empty.
func checkPlane(plane string) error {
	if plane != "" && len(validation.IsDNS1123Label(plane)) > 0 {
		return usageError(fmt.Errorf("--plane: %q is not the name of a ControlPlane; kubectl get controlplanes lists them",
			plane))
	}
	return nil
}

// atPlane returns the kubeconfig for a control plane of the server; the same without a name.
func atPlane(data []byte, plane string) ([]byte, error) {
	if err := checkPlane(plane); err != nil || plane == "" {
		return data, err
	}
	data, err := kubeconfig.ChangeClusters(data, func(cluster *clientcmdapi.Cluster) error {
		cluster.Server = planes.URL(cluster.Server, plane)
		return nil
	})
	return data, usageError(err)
}

// addAdmin is addClient for requests of an administrator.
func (f *clientFlags) addAdmin(flags *pflag.FlagSet) {
	f.addClient(flags, "the administrator's kubeconfig (default: that of the server in --config or --data-dir)")
}

func (f *clientFlags) addContext(flags *pflag.FlagSet) {
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current context)")
}

// check returns an error for flags that exclude each other.
func (f *clientFlags) check() error {
	switch {
	case f.kubeconfig != "" && (f.file != "" || f.dataDir != ""):
		return errors.New("--kubeconfig names the server; leave out --config and --data-dir")
	case f.kubeconfig == "" && f.context != "":
		return errors.New("--context needs --kubeconfig, the file that has the context")
	}
	return nil
}

// read returns the kubeconfig that the flags select: the named one, or that of the local
// server's administrator with the address for this machine.
func (f *clientFlags) read(cmd *cobra.Command) ([]byte, error) {
	data, err := f.readServer(cmd)
	if err != nil {
		return nil, err
	}
	return atPlane(data, f.plane)
}

// readServer is read without the plane.
func (f *clientFlags) readServer(cmd *cobra.Command) ([]byte, error) {
	if f.kubeconfig == "" {
		return readLocalKubeconfig(cmd, &f.configFlags)
	}
	data, err := os.ReadFile(f.kubeconfig)
	if err != nil {
		return nil, usageError(fmt.Errorf("read the kubeconfig: %w", err))
	}
	loaded, err := clientcmd.LoadFromFile(f.kubeconfig)
	if err != nil {
		return data, nil // the caller reports that it is not a kubeconfig
	}
	if err := clientcmd.ResolveLocalPaths(loaded); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if data, err = f.only(loaded, f.kubeconfig); err == nil && f.plane != "" {
		err = refusePlaneOfPlane(cmd, data, f.kubeconfig)
	}
	return data, err
}

// only returns the kubeconfig with the context of --context, if it is given, as the only one.
func (f *clientFlags) only(loaded *clientcmdapi.Config, path string) ([]byte, error) {
	if name := f.context; name != "" {
		if loaded.Contexts[name] == nil {
			return nil, usageError(fmt.Errorf("--context: %s has no context %q; it has: %s", path, name,
				strings.Join(slices.Sorted(maps.Keys(loaded.Contexts)), ", ")))
		}
		loaded.CurrentContext = name
		if err := clientcmdapi.MinifyConfig(loaded); err != nil {
			return nil, usageError(fmt.Errorf("read the kubeconfig %s: %w", path, err))
		}
	}
	return clientcmd.Write(*loaded)
}

// connection returns the connection that a kubeconfig describes, and its namespace.
func connection(cmd *cobra.Command, data []byte) (*rest.Config, string, error) {
	loader, err := clientcmd.NewClientConfigFromBytes(data)
	if err != nil {
		return nil, "", usageError(fmt.Errorf("read the kubeconfig: %w", err))
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", usageError(fmt.Errorf("use the kubeconfig: %w", err))
	}
	config.WarningHandler = rest.NewWarningWriter(cmd.ErrOrStderr(), rest.WarningWriterOptions{Deduplicate: true})
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", usageError(fmt.Errorf("use the kubeconfig: %w", err))
	}
	return config, namespace, nil
}

// connect returns the administrator's client and what new credentials name as the
// server: the given URL, with the path of the control plane, or the one in the administrator's kubeconfig.
func (f *clientFlags) connect(cmd *cobra.Command, server string) (kubernetes.Interface, kubeconfig.Endpoint, error) {
	data, err := f.read(cmd)
	if err != nil {
		return nil, kubeconfig.Endpoint{}, err
	}
	config, _, err := connection(cmd, data)
	if err != nil {
		return nil, kubeconfig.Endpoint{}, err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, kubeconfig.Endpoint{}, fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	config.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, kubeconfig.Endpoint{}, fmt.Errorf("use the administrator's kubeconfig: %w", err)
	}
	_, err = client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(cmd.Context())
	if apierrors.IsUnauthorized(err) {
		return nil, kubeconfig.Endpoint{}, admin.Refused(config.Host)
	}
	if err != nil && !apierrors.IsForbidden(err) { // RBAC refuses requests of its own
		if unknown := f.refuseUnknown(cmd); unknown != nil {
			return nil, kubeconfig.Endpoint{}, unknown
		}
		return nil, kubeconfig.Endpoint{}, f.unanswered(admin.NoAnswer(config.Host, err))
	}
	endpoint := kubeconfig.Endpoint{CA: config.CAData}
	if f.kubeconfig != "" {
		endpoint.TLSServerName = config.ServerName
	} else if server != "" {
		if endpoint.TLSServerName, err = servedName(cmd, &f.configFlags, server); err != nil {
			return nil, kubeconfig.Endpoint{}, err
		}
	}
	if server == "" {
		endpoint.Server, err = f.url(cmd, data)
	} else {
		endpoint.Server = planes.URL(server, planeOf(config.Host))
	}
	return client, endpoint, err
}

// url returns the URL of the API for clients on all machines. That in the kubeconfig, which read has
// returned, may be for this machine.
func (f *clientFlags) url(cmd *cobra.Command, data []byte) (string, error) {
	if f.kubeconfig != "" {
		config, _, err := connection(cmd, data)
		if err != nil {
			return "", err
		}
		return config.Host, nil
	}
	cfg, err := completed(cmd, &f.configFlags)
	if err != nil {
		return "", err
	}
	address, err := kubeconfig.Server(cfg.Kubeconfig.Path)
	if err != nil {
		return "", err
	}
	return planes.URL(address.Server, f.plane), nil
}

// unanswered returns the error of a server that does not answer or is not ready, with the remedy.
func (f *clientFlags) unanswered(err error) error {
	if f.kubeconfig == "" && f.complete != nil && errors.Is(err, admin.ErrNoAnswer) {
		err = fmt.Errorf("%w If it runs, its log says what it waits for. Start it with %s", err, startCommand(f.complete))
	}
	return &exitError{ExitNotReady, err}
}

// startCommand starts the server of a data directory as it was started last.
func startCommand(cfg *config.ServerConfiguration) string {
	if _, file, err := config.Used(cfg.DataDir); err == nil && file != "" {
		return "kube-hyper-mini server --config " + logging.ShellWord(file)
	}
	return "kube-hyper-mini server --data-dir " + logging.ShellWord(cfg.DataDir)
}

// checkServerURL checks the value of --server.
func checkServerURL(server string) error {
	if _, err := config.ParseServerURL(server); err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	return nil
}

// readAdminKubeconfig reads the kubeconfig of the server that the flags select.
func readAdminKubeconfig(cmd *cobra.Command, flags *configFlags) ([]byte, error) {
	cfg, err := completed(cmd, flags)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(cfg.Kubeconfig.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &exitError{ExitNotReady, fmt.Errorf("no kubeconfig at %s: start the server first, or name its "+
			"--data-dir or --config; etcd and controllers serve no API: name the --data-dir of an API server",
			cfg.Kubeconfig.Path)}
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if err := kubeconfig.CheckEmbedded(data); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Kubeconfig.Path, err)
	}
	return data, nil
}

// readLocalKubeconfig is readAdminKubeconfig with the address for this machine.
func readLocalKubeconfig(cmd *cobra.Command, flags *configFlags) ([]byte, error) {
	data, err := readAdminKubeconfig(cmd, flags)
	if err != nil {
		return nil, err
	}
	return kubeconfig.ForThisMachine(data)
}

// onServer does work on the stopped server of the data directory or, if a server uses that,
// through its API, with the kubeconfig of readLocalKubeconfig. stopped is nil for work that
// needs a running server. A control plane of the server is reached through the API only.
func onServer(cmd *cobra.Command, flags *configFlags, stopped func(*slog.Logger) error,
	running func(kubeconfig []byte) error) error {
	cfg, err := completed(cmd, flags)
	if err != nil {
		return err
	}
	if stopped != nil && flags.plane == "" {
		log, err := commandLog(cmd, cfg)
		if err == nil {
			err = stopped(log)
		}
		if !errors.Is(err, datadir.ErrLocked) {
			return err
		}
	}
	kubeconfig, err := readLocalKubeconfig(cmd, flags)
	if err == nil {
		kubeconfig, err = atPlane(kubeconfig, flags.plane)
	}
	if err != nil {
		return err
	}
	if err = running(kubeconfig); stopped == nil && errors.Is(err, admin.ErrNoAnswer) {
		return (&clientFlags{configFlags: *flags}).unanswered(err)
	}
	return err
}
