package doctor

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// kubeconfig checks the administrator's kubeconfig.
func (d *directory) kubeconfig(add func(Finding)) error {
	path := d.config.Kubeconfig
	cfg, err := clientcmd.LoadFromFile(path)
	restart := "start the server again: it writes the file"
	if errors.Is(err, fs.ErrNotExist) {
		if d.Running {
			add(Finding{Severity: Failure, Object: path, Problem: "the administrator's kubeconfig is missing", Remedy: restart})
		}
		return nil // the start writes it
	}
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err != nil {
		add(Finding{Severity: Failure, Object: path, Problem: err.Error(), Remedy: "remove the file and start the server again: it writes the file", Commands: []string{"rm " + logging.ShellWord(path)}})
		return nil
	}
	k := credentials{path: path, config: cfg, now: d.now(), remedy: func(string) (string, []string) { return restart, nil }}
	if !d.Running {
		k.severity = Risk // the start replaces it
	}
	k.clientCAs, k.serverCA = d.pool(pki.ClientCA), d.serverCA()
	k.check(add)
	return nil
}

func (d *directory) pool(authority string) *x509.CertPool {
	data, err := os.ReadFile(d.certificate(authority))
	if err != nil {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil
	}
	return pool
}

// serverCA returns the authority that signs the serving certificate; nil where
// serving.certFile is configured.
func (d *directory) serverCA() []byte {
	if d.config.Serving.CertFile != "" {
		return nil
	}
	data, err := os.ReadFile(d.certificate(pki.ServerCA))
	if err != nil {
		return nil
	}
	return data
}

// credentials checks a kubeconfig.
type credentials struct {
	path     string
	config   *api.Config
	now      time.Time
	severity Severity // of credentials that are not accepted; Failure if empty
	// clientCAs and serverCA are those of the server; nil if they are not known.
	clientCAs *x509.CertPool
	serverCA  []byte
	// remedy for the credentials of a user, and its commands.
	remedy func(user string) (string, []string)
}

func (k *credentials) check(add func(Finding)) {
	report := func(user, problem string) {
		remedy, commands := k.remedy(user)
		severity := k.severity
		if severity == "" {
			severity = Failure
		}
		add(Finding{Severity: severity, Object: k.path, Problem: problem, Remedy: remedy, Commands: commands})
	}
	for _, name := range slices.Sorted(maps.Keys(k.config.AuthInfos)) {
		if problem := k.user(k.config.AuthInfos[name]); problem != "" {
			report(name, fmt.Sprintf("the credentials of user %q: %s", name, problem))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.config.Clusters)) {
		cluster := k.config.Clusters[name]
		if len(k.serverCA) > 0 && len(cluster.CertificateAuthorityData) > 0 && !shareAuthority(cluster.CertificateAuthorityData, k.serverCA) {
			report("", fmt.Sprintf("cluster %q: its certificate-authority-data is not the authority of the server, which was replaced", name))
		}
	}
}

// user returns why the credentials are not accepted, or "".
func (k *credentials) user(info *api.AuthInfo) string {
	data := info.ClientCertificateData
	if len(data) == 0 && info.ClientCertificate != "" {
		var err error
		if data, err = os.ReadFile(relative(k.path, info.ClientCertificate)); err != nil {
			return err.Error()
		}
	}
	if list := parseCertificates(data); len(list) > 0 {
		crt := list[0]
		switch {
		case k.now.After(crt.NotAfter):
			return "the certificate expired at " + crt.NotAfter.Local().Format(time.DateTime)
		case k.now.Before(crt.NotBefore):
			return "the certificate is not valid before " + crt.NotBefore.Local().Format(time.DateTime)
		case k.clientCAs != nil:
			if _, err := crt.Verify(x509.VerifyOptions{Roots: k.clientCAs, CurrentTime: k.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
				return "the server's authority for clients has not signed the certificate"
			}
		}
	}
	return ""
}

func relative(kubeconfig, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(kubeconfig), path)
}

// parseCertificates returns the certificates in PEM data, as far as they can be read.
func parseCertificates(data []byte) []*x509.Certificate {
	var list []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return list
		}
		if crt, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, crt)
		}
	}
}

// shareAuthority reports whether two bundles have an authority in common. Authorities are compared
// by their keys: one that was signed again keeps its key.
func shareAuthority(a, b []byte) bool {
	others := parseCertificates(b)
	return slices.ContainsFunc(parseCertificates(a), func(crt *x509.Certificate) bool {
		return slices.ContainsFunc(others, func(other *x509.Certificate) bool {
			return bytes.Equal(crt.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo)
		})
	})
}
