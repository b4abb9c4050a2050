package identity

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/cert"

	"kube-hyper-mini.io/kube-hyper-mini/internal/fleet"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// checkNew returns an error if this start would make authorities or keys for a store that
// servers with other ones have used: the clients and tokens of those would be refused.
func (i *Identity) checkNew(ctx context.Context) error {
	if i.config.Reserve == nil {
		return nil
	}
	var missing *pki.MissingError
	if err := i.certificates.CheckPresence(); !errors.As(err, &missing) {
		return err
	}
	users := "is or was used by servers with other certificates and keys"
	unused, err := i.config.Reserve(ctx)
	if errors.Is(err, fleet.ErrReserved) {
		users = "is used by another new server, which began to make its certificates and keys less than a minute ago"
	} else if err != nil || unused {
		return err
	}
	if i.config.AllowNew {
		i.config.Log.Warn("other servers have used this etcd, and this one makes new authorities and keys: each "+
			"refuses the kubeconfigs and tokens of the others", "etcd", i.etcd())
		return nil
	}
	return fmt.Errorf("the etcd at %s (etcd.external.prefix %s) %s, and this start would make new ones: this server "+
		"would refuse the kubeconfigs and tokens of the others. To serve the same objects, copy the directories pki "+
		"and encryption of their data directory into %s first, or restore pki and encryption from a backup. To serve "+
		"objects of its own, set another etcd.external.prefix. To make new ones anyway, start with --new-identity: "+
		"all clients then need new kubeconfigs and tokens",
		i.etcd(), i.config.External.Prefix, users, logging.ShellWord(i.config.Dir.Path()))
}

// etcd names the external etcd for messages.
func (i *Identity) etcd() string { return strings.Join(i.config.External.Endpoints, ", ") }

// warnOfOthers logs a warning if servers have published authorities in the store, and none
// of them is an authority of this server. That is no error: the store may have been
// restored from before a rotation. An encrypted config map is not read.
func (i *Identity) warnOfOthers(ctx context.Context, client clientv3.KV) error {
	key, stored, err := fleet.Authorities(ctx, client, i.config.External.Prefix)
	if err != nil || stored == nil {
		return err
	}
	if store.IsEncrypted(stored) {
		return nil
	}
	published, err := readAuthorities(stored)
	if err != nil {
		return fmt.Errorf("read the authorities of other servers in etcd (%s): %w", key, err)
	}
	own, err := cert.CertsFromFile(i.certificates.Cert(pki.ClientCA))
	if err != nil {
		return err
	}
	for _, ca := range own {
		sameKey := func(other *x509.Certificate) bool {
			return bytes.Equal(ca.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo)
		}
		if slices.ContainsFunc(published, sameKey) {
			return nil
		}
	}
	i.config.Log.Warn("servers with other authorities have used this etcd: each refuses the kubeconfigs and tokens "+
		"of the others; copy the directories pki and encryption of one to the others to give them the same "+
		"authorities", "etcd", i.etcd())
	return nil
}

// readAuthorities returns the client CAs in a stored config map of [fleet.Authorities].
func readAuthorities(stored []byte) ([]*x509.Certificate, error) {
	published := &corev1.ConfigMap{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(stored, nil, published); err != nil {
		return nil, err
	}
	return cert.ParseCertsPEM([]byte(published.Data["client-ca-file"]))
}
