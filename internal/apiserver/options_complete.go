package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// Files are the certificates and keys of the API server. It reloads changed files.
type Files struct {
	ServingCert, ServingKey string
	// ClientCAs are files with the CAs of client certificates.
	ClientCAs                     []string
	FrontProxyCA                  string
	FrontProxyCert, FrontProxyKey string
	// EncryptionConfig is used if the configuration names no other; empty for none.
	EncryptionConfig string
}

// Files returns the files of store, except where the settings name others.
// generatedEncryption is the EncryptionConfiguration in the data directory; empty for
// none.
func (o *Options) Files(store *pki.Store, generatedEncryption string) Files {
	files := Files{
		ServingCert: store.Cert(pki.APIServer), ServingKey: store.Key(pki.APIServer),
		ClientCAs:      []string{store.Cert(pki.ClientCA)},
		FrontProxyCA:   store.Cert(pki.FrontProxyCA),
		FrontProxyCert: store.Cert(pki.FrontProxy), FrontProxyKey: store.Key(pki.FrontProxy),
		EncryptionConfig: generatedEncryption,
	}
	if serving := o.settings.Serving; serving.CertFile != "" {
		files.ServingCert, files.ServingKey = serving.CertFile, serving.KeyFile
	}
	if clientCA := o.settings.APIServer.Authentication.ClientCAFile; clientCA != "" {
		files.ClientCAs = append(files.ClientCAs, clientCA)
	}
	return files
}

// complete adds the listener and the files to the options.
func (o *Options) complete(ctx context.Context, cfg Config) (options.CompletedOptions, error) {
	files, listener := cfg.Files, cfg.Listener
	s := o.upstream
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return options.CompletedOptions{}, fmt.Errorf("the listener is %T; the API server needs TCP", listener.Addr())
	}
	s.SecureServing.Listener = listener
	s.SecureServing.BindAddress, s.SecureServing.BindPort = address.IP, address.Port
	s.SecureServing.ServerCert.CertKey.CertFile = files.ServingCert
	s.SecureServing.ServerCert.CertKey.KeyFile = files.ServingKey
	if s.GenericServerRunOptions.AdvertiseAddress == nil && !address.IP.IsUnspecified() {
		s.GenericServerRunOptions.AdvertiseAddress = address.IP
	}
	if s.GenericServerRunOptions.AdvertiseAddress == nil {
		// Upstream fails on a host without a default route.
		s.GenericServerRunOptions.AdvertiseAddress = net.IPv4(127, 0, 0, 1)
	}
	if err := o.completeIdentity(cfg); err != nil {
		return options.CompletedOptions{}, err
	}
	s.Etcd.EncryptionProviderConfigFilepath = cmp.Or(s.Etcd.EncryptionProviderConfigFilepath, files.EncryptionConfig)
	s.Etcd.EncryptionProviderConfigAutomaticReload = s.Etcd.EncryptionProviderConfigFilepath != ""
	s.Etcd.SkipHealthEndpoints = true // addHealthChecks adds them
	period := &s.Etcd.StorageConfig.CountMetricPollPeriod
	if _, inProcess := listener.Listener.(*unreachable); inProcess && *period == time.Minute { // upstream's default
		*period = 0 // without a port no metrics are scraped, and the count of each type takes a goroutine
	}
	sizes, err := withDefaultCacheSizes(s.Etcd.WatchCacheSizes)
	if err != nil {
		return options.CompletedOptions{}, err
	}
	s.Etcd.WatchCacheSizes = sizes
	completed, err := s.Complete(ctx, nil, nil)
	if err != nil {
		return options.CompletedOptions{}, fmt.Errorf("complete the API server's options: %w", err)
	}
	return completed, nil
}

// completeIdentity sets the client CAs, the token keys and the front proxy.
func (o *Options) completeIdentity(cfg Config) error {
	s, files := o.upstream, cfg.Files
	trusted, err := clientCAs(files.ClientCAs)
	if err != nil {
		return err
	}
	s.Authentication.ClientCert.CAContentProvider = trusted
	if err := cfg.TokenKeys.setIssuer(s.Authentication.ServiceAccounts.Issuers[0]); err != nil {
		return err
	}
	s.Authentication.ServiceAccounts.ExternalPublicKeysGetter = cfg.TokenKeys
	s.ServiceAccountIssuer = cfg.TokenKeys
	header := s.Authentication.RequestHeader
	header.ClientCAFile = files.FrontProxyCA
	header.AllowedNames = []string{"front-proxy-client"}
	header.UsernameHeaders = []string{"X-Remote-User"}
	header.UIDHeaders = []string{"X-Remote-Uid"}
	header.GroupHeaders = []string{"X-Remote-Group"}
	header.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	s.ProxyClientCertFile, s.ProxyClientKeyFile = files.FrontProxyCert, files.FrontProxyKey
	return nil
}

// processGates are the feature gates of the process, which all of its servers share
// (k8s.io/apiserver/pkg/util/feature). It is locked while options are made: upstream keeps
// what it reads from flags in a registry of the process.
var processGates struct {
	sync.Mutex
	set map[string]bool // nil before the first SetFeatureGates
}

// SetFeatureGates returns an error if a gate is not known, or if an earlier call was for
// others. A process with several servers calls it before [NewOptions] for each.
func SetFeatureGates(configured map[string]bool) error {
	processGates.Lock()
	defer processGates.Unlock()
	wanted := featureGates(configured)
	problem := func(err error) error { return &config.FieldError{Path: "apiServer.featureGates", Message: err.Error()} }
	if processGates.set == nil {
		// A gate that is wrong would stay in the registry.
		if err := utilfeature.DefaultMutableFeatureGate.DeepCopy().SetFromMap(wanted); err != nil {
			return problem(err)
		}
		processGates.set = wanted
		return nil
	}
	if !maps.Equal(processGates.set, wanted) {
		return problem(fmt.Errorf("differ from those of the first server of this process (%s): feature gates are global "+
			"in a process; run the server in a process of its own", pairs(processGates.set)))
	}
	return nil
}
