package datadir

import "kube-hyper-mini.io/kube-hyper-mini/internal/version"

// CurrentStamp is what this release writes into data directories.
func CurrentStamp() Stamp {
	return Stamp{Format: Format, Version: version.Release(), Kubernetes: version.Kubernetes(), Etcd: version.Etcd()}
}
