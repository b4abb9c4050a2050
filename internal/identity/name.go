package identity

import (
	"cmp"
	"path/filepath"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// ServedName returns the name by which clients that connect to host can verify the
// serving certificate in the configuration's data directory: empty if the certificate
// has the host itself. The configuration has been completed.
func ServedName(cfg *config.ServerConfiguration, host string) (string, error) {
	file := cmp.Or(cfg.Serving.CertFile, pki.New(filepath.Join(cfg.DataDir, "pki"), pki.Names{}).Cert(pki.APIServer))
	chain, err := readChain(file)
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
