package identity

import (
	"cmp"
	"path/filepath"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// ServedName returns the name by which clients that connect to host can verify the
// serving certificate, which is in the data directory unless serving names one: empty if the certificate
// has the host itself. The configuration has been completed.
func ServedName(serving *config.Serving, dataDir, host string) (string, error) {
	file := cmp.Or(serving.CertFile, pki.New(filepath.Join(dataDir, "pki"), pki.Names{}).Cert(pki.APIServer))
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
