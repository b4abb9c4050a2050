package apiserver

import (
	"context"
	"fmt"
	"net"

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

// NewFiles returns the files of store, except where the configuration names others.
// generatedEncryption is the EncryptionConfiguration in the data directory; empty for
// none.
func NewFiles(store *pki.Store, cfg *config.ServerConfiguration, generatedEncryption string) Files {
	files := Files{
		ServingCert: store.Cert(pki.APIServer), ServingKey: store.Key(pki.APIServer),
		ClientCAs:      []string{store.Cert(pki.ClientCA)},
		FrontProxyCA:   store.Cert(pki.FrontProxyCA),
		FrontProxyCert: store.Cert(pki.FrontProxy), FrontProxyKey: store.Key(pki.FrontProxy),
		EncryptionConfig: generatedEncryption,
	}
	if cfg.Serving.CertFile != "" {
		files.ServingCert, files.ServingKey = cfg.Serving.CertFile, cfg.Serving.KeyFile
	}
	if clientCA := cfg.APIServer.Authentication.ClientCAFile; clientCA != "" {
		files.ClientCAs = append(files.ClientCAs, clientCA)
	}
	return files
}

// complete adds the listener, the files and the endpoints of etcd to the options.
func (o *Options) complete(ctx context.Context, cfg Config, endpoints []string) (options.CompletedOptions, error) {
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
	if s.Etcd.EncryptionProviderConfigFilepath == "" {
		s.Etcd.EncryptionProviderConfigFilepath = files.EncryptionConfig
	}
	if s.Etcd.EncryptionProviderConfigFilepath == "" {
		s.Etcd.EncryptionProviderConfigAutomaticReload = false
	}
	s.Etcd.StorageConfig.Transport.ServerList = endpoints
	s.Etcd.SkipHealthEndpoints = true // addHealthChecks adds them
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
