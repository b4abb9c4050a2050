package backup

import (
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

func TestSameRelease(t *testing.T) {
	stamp := func(version, etcd string) datadir.Stamp {
		return datadir.Stamp{Format: 1, Version: version, Kubernetes: "v1.36.3", Etcd: etcd}
	}
	for _, c := range []struct {
		a, b datadir.Stamp
		want bool
	}{
		{stamp("v1.2.3", "3.6.16"), stamp("v1.2.3", "3.6.16"), true},
		{stamp("v1.2.3", "3.6.16"), stamp("v1.2.3-dirty", "3.6.16"), true},
		{stamp("v1.2.3-4-gabc1234", "3.6.16"), stamp("v1.2.3-7-g00ff123-dirty", "3.6.16"), true},
		{stamp("abc1234", "3.6.16"), stamp("abc1234-dirty", "3.6.16"), true},
		{stamp("abc1234", "3.6.16"), stamp("def5678", "3.6.16"), false},
		{stamp("abc1234", "3.6.16"), stamp("v0.0.0-dev", "3.6.16"), false},
		{stamp("v1.2.3", "3.6.16"), stamp("v1.2.4", "3.6.16"), false},
		{stamp("v1.2.3-rc.1", "3.6.16"), stamp("v1.2.3", "3.6.16"), false},
		{stamp("v1.2.3", "3.6.16"), stamp("v1.2.3", "3.6.17"), false},
		{stamp("abc1234", "3.6.16"), stamp("v1.2.3", "3.6.16"), false},
	} {
		if got := sameRelease(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %t, want %t", c.a.Version, c.b.Version, got, c.want)
		}
	}
}
