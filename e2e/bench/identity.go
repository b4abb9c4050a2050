package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority signs the other side's certificates: one for servers, clients and
// the front proxy, all with the kind of key that kube-hyper-mini uses.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// writeIdentity makes the other side's certificates, keys and kubeconfigs in
// a directory, and only the kubeconfigs if the rest is there.
func writeIdentity(dir, server string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make the directory for keys: %w", err)
		}
		if err := writeKeys(dir); err != nil {
			return err
		}
	}
	for name, user := range map[string]string{"admin": "admin", "controllers": "controllers"} {
		if err := writeKubeconfig(dir, name, user, server); err != nil {
			return err
		}
	}
	return nil
}

func writeKeys(dir string) error {
	key, err := newKey(filepath.Join(dir, "ca.key"))
	if err != nil {
		return err
	}
	root, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "bench"}, key)
	if err != nil {
		return fmt.Errorf("make the certificate authority: %w", err)
	}
	a := &authority{dir: dir, cert: root, key: key}
	if err := writeCertificate(filepath.Join(dir, "ca.crt"), root.Raw); err != nil {
		return err
	}
	for name, subject := range map[string]pkix.Name{
		"apiserver":          {CommonName: "kube-apiserver"},
		"admin":              {CommonName: "admin", Organization: []string{"system:masters"}},
		"controllers":        {CommonName: "system:kube-controller-manager"},
		"front-proxy-client": {CommonName: "front-proxy-client"},
	} {
		if err := a.issue(name, subject); err != nil {
			return err
		}
	}
	_, err = newKey(filepath.Join(dir, "service-account.key"))
	return err
}

// issue makes a key and a certificate for it.
func (a *authority) issue(name string, subject pkix.Name) error {
	key, err := newKey(filepath.Join(a.dir, name+".key"))
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	if err != nil {
		return fmt.Errorf("make a serial number: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("make the certificate of %s: %w", name, err)
	}
	return writeCertificate(filepath.Join(a.dir, name+".crt"), der)
}

func newKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	if err := keyutil.WriteKey(path, text); err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	return key, nil
}

func writeCertificate(path string, der []byte) error {
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("read a new certificate: %w", err)
	}
	text, err := cert.EncodeCertificates(parsed)
	if err != nil {
		return fmt.Errorf("encode a certificate: %w", err)
	}
	if err := cert.WriteCert(path, text); err != nil {
		return fmt.Errorf("write a certificate: %w", err)
	}
	return nil
}

func writeKubeconfig(dir, name, user, server string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: filepath.Join(dir, "ca.crt")}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificate: filepath.Join(dir, user+".crt"), ClientKey: filepath.Join(dir, user+".key"),
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, filepath.Join(dir, name+".kubeconfig")); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return nil
}
