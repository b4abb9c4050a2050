package identity

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// Config of an identity.
type Config struct {
	Serving    config.Serving
	Kubeconfig config.Kubeconfig
	Encryption config.Encryption
	External   config.ExternalEtcd
	// TokenKeyFiles have further public keys that verify service account tokens.
	TokenKeyFiles []string
	// BackupDir is where the error for missing files finds the newest backup.
	BackupDir string
	Dir       *datadir.Dir
	// URL of the API, for the kubeconfig; empty without an API.
	URL string
	// LocalURL is where the API listens, for commands on this machine, if URL leads
	// there by another way; or empty.
	LocalURL string
	// EtcdHost is the host of etcd's listener; empty for none.
	EtcdHost string
	// AllowNew creates the authorities that a used directory lacks, and new ones for a
	// store that other servers have used.
	AllowNew bool
	// Reserve reports whether new authorities may be made for the store of the server, as
	// [fleet.ReserveIdentity] does; nil if the process has no store.
	Reserve func(context.Context) (bool, error)
	// UseTokenKeys is called with the keys of service account tokens at the start and
	// when they change; nil if no tokens are signed.
	UseTokenKeys func(signer crypto.Signer, verify []crypto.PublicKey) error
	Log          *slog.Logger
}

// Identity keeps the certificates and keys, the encryption key and the
// administrator's kubeconfig.
type Identity struct {
	config Config

	certificates *pki.Store
	encryption   string     // path of the EncryptionConfiguration in the data directory; empty if it is not used
	newKey       bool       // this start has made that file
	following    sync.Mutex // held while changes are passed on

	followFailed atomic.Bool // the last attempt to pass changes on has failed
	logged       logging.Changes
	fileKeys     map[string][]crypto.PublicKey // of TokenKeyFiles, as last read
}

// New returns an identity that has read nothing yet.
func New(cfg Config) *Identity {
	return &Identity{config: cfg, fileKeys: map[string][]crypto.PublicKey{}}
}

// Open returns the identity of a data directory that no server uses, over a store of
// its certificates and keys. It is not to be run.
func Open(cfg Config, store *pki.Store) *Identity {
	i := New(cfg)
	i.certificates = store
	return i
}

// Certificates returns the store of certificates and keys, once the identity is ready.
func (i *Identity) Certificates() *pki.Store { return i.certificates }

// GeneratedEncryption returns the path of the EncryptionConfiguration in the data directory;
// empty if it is not used.
func (i *Identity) GeneratedEncryption() string { return i.encryption }

// Run is that of a [lifecycle.Part]: it makes what is missing and renews
// certificates until ctx ends. A failed renewal is tried again.
func (i *Identity) Run(ctx context.Context, ready func()) error {
	if err := i.ensure(ctx); err != nil {
		return err
	}
	ready()
	i.certificates.Renew(ctx, i.renewed)
	return nil
}

func (i *Identity) ensure(ctx context.Context) error {
	if err := i.ensureKeys(ctx); err != nil {
		return err
	}
	if i.config.Encryption.ConfigFile == "" {
		file := i.config.Dir.Join("encryption", "config.yaml")
		_, statErr := os.Lstat(file)
		used, err := encryption.Ensure(file, i.config.Encryption.Resources)
		if err != nil {
			return err
		}
		if used {
			i.encryption, i.newKey = file, errors.Is(statErr, fs.ErrNotExist)
		}
	}
	return i.WriteKubeconfig()
}

// WriteKubeconfig writes the administrator's kubeconfig if there is an API.
func (i *Identity) WriteKubeconfig() error {
	if i.config.URL == "" {
		return nil
	}
	access := kubeconfig.Access{
		Server:   i.config.URL,
		Local:    i.config.LocalURL,
		CAFile:   i.certificates.ServerCA(),
		CertFile: i.certificates.Cert(pki.Admin),
		KeyFile:  i.certificates.Key(pki.Admin),
	}
	if i.config.Serving.CertFile != "" { // it may not have the address of Local
		named, err := url.Parse(i.config.URL)
		if err != nil {
			return fmt.Errorf("read the server's URL: %w", err)
		}
		access.LocalName = named.Hostname()
	}
	data, err := kubeconfig.Render(access)
	if err != nil {
		return err
	}
	mode, err := strconv.ParseUint(string(i.config.Kubeconfig.Mode), 8, 32)
	if err != nil {
		return fmt.Errorf("read kubeconfig.mode: %w", err)
	}
	return datadir.WriteChanged(i.config.Kubeconfig.Path, data, os.FileMode(mode))
}

// ControllerClient connects to the API servers at url, in other processes, as the
// user system:kube-controller-manager.
func (i *Identity) ControllerClient(url string) *rest.Config {
	return &rest.Config{
		Host: url,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: i.certificates.ServerCA(), CertFile: i.certificates.Cert(pki.Controller),
			KeyFile: i.certificates.Key(pki.Controller),
		},
		UserAgent: rest.DefaultKubernetesUserAgent(),
		QPS:       -1, // flow control of the server bounds requests
	}
}

// CheckEtcd returns an error if the objects in etcd are encrypted with other keys
// than the configured ones: the server would never be ready. It logs which resources
// are encrypted. It removes a key that this start has made in vain: the file with the
// right key was lost.
func (i *Identity) CheckEtcd(ctx context.Context, client clientv3.KV) error {
	file := cmp.Or(i.config.Encryption.ConfigFile, i.config.Dir.Join("encryption", "config.yaml")) // it may be lost
	err := encryption.CheckReadable(ctx, client, i.config.External.Prefix, file)
	if errors.Is(err, encryption.ErrOtherKey) && i.newKey {
		return errors.Join(fmt.Errorf("%s is missing; the key that this start made instead decrypts nothing, and was "+
			"removed: %w", file, err), os.Remove(file))
	} else if err != nil {
		return err
	}
	resources, err := encryption.Encrypted(file)
	switch {
	case err != nil:
		return err
	case len(resources) == 0:
		i.config.Log.Info("no resource is encrypted in etcd")
	default:
		i.config.Log.Info("resources are encrypted in etcd", "resources", strings.Join(resources, ", "), "file", file)
	}
	return nil
}

// servingNames are the names and addresses of the serving certificate.
func servingNames(serving *config.Serving) (pki.Names, error) {
	names := pki.Names{
		DNS: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
		IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	add := func(name string) {
		if ip := net.ParseIP(name); ip != nil {
			names.IPs = append(names.IPs, ip)
		} else if name != "" {
			names.DNS = append(names.DNS, name)
		}
	}
	bind := net.ParseIP(serving.BindAddress)
	if bind != nil && !bind.IsUnspecified() {
		names.IPs = append(names.IPs, bind)
	} else {
		hostname, err := os.Hostname()
		if err != nil {
			return names, fmt.Errorf("find this host's name for the serving certificate: %w", err)
		}
		add(strings.ToLower(hostname))
		addresses, err := net.InterfaceAddrs()
		if err != nil {
			return names, fmt.Errorf("find this host's addresses for the serving certificate: %w", err)
		}
		for _, address := range addresses {
			if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
				names.IPs = append(names.IPs, network.IP)
			}
		}
	}
	for _, name := range append([]string{serving.ExternalHost}, serving.ExtraSANs...) {
		add(name)
	}
	return names, nil
}

// URLs returns the URL of the API in the kubeconfig, and the one for clients on this machine,
// which is empty if it is the same.
func URLs(serving *config.Serving, address net.Addr) (url, local string, err error) {
	listens, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return "", "", fmt.Errorf("read the listening address: %w", err)
	}
	host := cmp.Or(serving.ExternalHost, serving.BindAddress)
	if isUnspecified(host) {
		if host, err = os.Hostname(); err != nil {
			return "", "", fmt.Errorf("find this host's name for the kubeconfig: %w; set serving.externalHost", err)
		}
	}
	if isUnspecified(listens) {
		listens = "127.0.0.1" // the IPv6 wildcard listens for it too
	}
	url = cmp.Or(serving.ExternalURL, "https://"+net.JoinHostPort(host, port))
	if local = "https://" + net.JoinHostPort(listens, port); local == url {
		local = ""
	}
	return url, local, nil
}

func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}

// ServedName returns the name in the serving certificate by which clients that connect to
// host can verify it; empty if the certificate has the host itself. The configuration has
// been completed.
func ServedName(serving *config.Serving, dataDir, host string) (string, error) {
	file := cmp.Or(serving.CertFile, pki.New(filepath.Join(dataDir, "pki"), pki.Names{}).Cert(pki.APIServer))
	chain, err := cert.CertsFromFile(file)
	if err != nil {
		return "", err
	}
	if chain[0].VerifyHostname(host) == nil {
		return "", nil
	}
	for _, name := range chain[0].DNSNames {
		if !strings.HasPrefix(name, "*.") {
			return name, nil
		}
	}
	for _, address := range chain[0].IPAddresses {
		return address.String(), nil
	}
	return "", nil
}
