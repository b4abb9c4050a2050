package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/internal/fleet"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
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
