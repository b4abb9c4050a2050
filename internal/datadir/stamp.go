package datadir

import "kube-hyper-mini.io/kube-hyper-mini/internal/version"

// CurrentStamp is the stamp of this release.
func CurrentStamp() Stamp {
	return Stamp{Format: Format, Version: version.Release(), Kubernetes: version.Kubernetes(), Etcd: version.Etcd()}
}
