package datadir

import (
	"fmt"
	"os"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// CurrentStamp is the stamp of this release.
func CurrentStamp() Stamp {
	return Stamp{Format: Format, Version: version.Release(), Kubernetes: version.Kubernetes(), Etcd: version.Etcd()}
}

// StampTime returns when the release in the directory's stamp took the directory over.
func (d *Dir) StampTime() (time.Time, error) {
	info, err := os.Stat(d.Join("version.json"))
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the version stamp: %w", err)
	}
	return info.ModTime(), nil
}
