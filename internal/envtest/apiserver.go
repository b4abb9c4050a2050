package envtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// ControllersVariable is the environment variable that selects the controllers, in
// the syntax of controllerManager.controllers, separated by commas, or "none".
const ControllersVariable = "KUBE_HYPER_MINI_CONTROLLERS"

// defaultControllers leave out those that create objects in each namespace: tests count
// service accounts and config maps.
var defaultControllers = []string{"*", "-serviceaccount-controller", "-root-ca-certificate-publisher-controller"}

// subdirectory is the data directory of the server, in that of etcd or in the
// directory of the certificates.
const subdirectory = "kube-hyper-mini"

// APIServer is a command line of kube-apiserver.
type APIServer struct {
	// Help is the text for --help; it is empty unless --help was given.
	Help string

	config     *config.ServerConfiguration
	certDir    string
	signingKey string
	etcd       []string
}

// NewAPIServer reads the command line. Unknown flags, and flags whose value the server
// determines itself, are errors that name the flag.
func NewAPIServer(args []string) (*APIServer, error) {
	flags := apiserver.CommandLine()
	flags.Usage = func() {} // the error is enough
	a := &APIServer{config: config.Default()}
	err := flags.ParseAll(args, a.set)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		a.Help = "kube-apiserver of kube-hyper-mini, for envtest. It serves all types as data and runs the generic " +
			"controllers.\n\nFlags:\n" + flags.FlagUsages()
		return a, nil
	case err != nil:
		return nil, fmt.Errorf("kube-apiserver: %w; see --help for the flags of this server", err)
	case flags.NArg() > 0:
		return nil, fmt.Errorf("kube-apiserver: %q is not a flag", flags.Arg(0))
	case len(a.etcd) == 0:
		return nil, errors.New("kube-apiserver: --etcd-servers is missing")
	case a.certDir == "":
		return nil, errors.New("kube-apiserver: --cert-dir is missing: envtest always sets it")
	}
	a.complete(os.Getenv(ControllersVariable))
	return a, nil
}

// set applies one flag of the command line to the field of the configuration
// that it corresponds to, or to the flags of the server.
func (a *APIServer) set(flag *pflag.Flag, value string) error {
	cfg := a.config
	paths := map[string]*string{
		"cert-dir":                         &a.certDir,
		"service-account-signing-key-file": &a.signingKey,
		"client-ca-file":                   &cfg.APIServer.Authentication.ClientCAFile,
		"tls-cert-file":                    &cfg.Serving.CertFile,
		"tls-private-key-file":             &cfg.Serving.KeyFile,
		"etcd-cafile":                      &cfg.Etcd.External.CAFile,
		"etcd-certfile":                    &cfg.Etcd.External.CertFile,
		"etcd-keyfile":                     &cfg.Etcd.External.KeyFile,
		"etcd-prefix":                      &cfg.Etcd.External.Prefix,
		"bind-address":                     &cfg.Serving.BindAddress,
		"logging-format":                   &cfg.Logging.Format,
	}
	if field, ok := paths[flag.Name]; ok {
		*field = value
		return nil
	}
	var err error
	switch flag.Name {
	case "etcd-servers":
		a.etcd = append(a.etcd, strings.Split(value, ",")...)
	case "service-account-key-file":
		files := &cfg.APIServer.Authentication.ServiceAccountKeyFiles
		*files = append(*files, value)
	case "secure-port":
		cfg.Serving.Port, err = strconv.Atoi(value)
	case "v":
		cfg.Logging.Verbosity, err = strconv.Atoi(value)
	default:
		if reason := apiserver.Refused(flag.Name); reason != "" {
			return fmt.Errorf("--%s %s", flag.Name, reason)
		}
		cfg.AddArgument(flag.Name, value)
	}
	if err != nil {
		return fmt.Errorf("--%s: %q is not a number", flag.Name, value)
	}
	return nil
}

// complete sets the fields that a test server needs, and those whose defaults
// differ from kube-apiserver's.
func (a *APIServer) complete(controllers string) {
	cfg := a.config
	cfg.APIs.Profile = config.ProfileKubernetes
	cfg.Backup.BeforeUpgrade, cfg.Backup.Endpoint = false, config.Off
	cfg.APIServer.Encryption.Resources = []string{}
	if !cfg.HasArgument("anonymous-auth", "authentication-config") {
		cfg.AddArgument("anonymous-auth", "true")
	}
	switch controllers {
	case "":
		cfg.ControllerManager.Controllers = slices.Clone(defaultControllers)
	case "none":
		cfg.ControllerManager.Controllers = []string{}
	default:
		cfg.ControllerManager.Controllers = strings.Split(controllers, ",")
	}
	if cfg.Serving.CertFile == "" {
		certificate, key := filepath.Join(a.certDir, "apiserver.crt"), filepath.Join(a.certDir, "apiserver.key")
		_, noCertificate := os.Stat(certificate)
		_, noKey := os.Stat(key)
		if noCertificate == nil && noKey == nil {
			cfg.Serving.CertFile, cfg.Serving.KeyFile = certificate, key
		}
	}
	if cfg.Serving.CertFile != "" {
		cfg.Serving.CAFile = cfg.Serving.CertFile // only envtest has its authority
	}
}

// Configuration gets the data directory from etcd, writes the key that signs tokens,
// and returns the configuration of the server.
func (a *APIServer) Configuration(ctx context.Context) (*config.ServerConfiguration, error) {
	var found *store
	if address, err := url.Parse(a.etcd[0]); err != nil || address.Scheme == "http" {
		if found, err = askStore(ctx, strings.TrimSuffix(a.etcd[0], "/")); err != nil {
			return nil, fmt.Errorf("kube-apiserver: %w", err)
		}
	}
	if found != nil {
		a.config.DataDir = filepath.Join(found.DataDir, subdirectory)
		a.config.Etcd.Embedded.Fsync = found.Fsync
		if found.Quota > 0 {
			a.config.Etcd.Embedded.QuotaBackend = *resource.NewQuantity(found.Quota, resource.BinarySI)
		}
	} else {
		a.config.Etcd.External.Endpoints = a.etcd
		a.config.DataDir = filepath.Join(a.certDir, subdirectory)
	}
	if err := a.placeSigningKey(); err != nil {
		return nil, fmt.Errorf("kube-apiserver: --service-account-signing-key-file: %w", err)
	}
	return a.config, nil
}

// Owner returns the test program that has started this process, or nil if a user has. Call
// it after Configuration.
func (a *APIServer) Owner() (*Owner, error) {
	owner, err := newOwner(a.certDir, "", filepath.Dir(a.config.DataDir))
	if err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	return owner, nil
}

// placeSigningKey copies the key to the path that the server reads.
func (a *APIServer) placeSigningKey() error {
	if a.signingKey == "" {
		return nil
	}
	key, err := os.ReadFile(a.signingKey)
	if err != nil {
		return err
	}
	return datadir.WriteFile(filepath.Join(a.config.DataDir, "pki", "service-account.key"), key, 0o600)
}
