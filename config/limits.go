package config

import "k8s.io/apimachinery/pkg/api/resource"

// Limits bound what one client can cost the others. 0 switches a bound off.
type Limits struct {
	// ConnectionsPerAddress is the number of connections of one client address.
	ConnectionsPerAddress int `json:"connectionsPerAddress"`
	// WatchesPerUser is the number of open watches of one user, or of the service
	// accounts of one namespace together.
	WatchesPerUser int `json:"watchesPerUser"`
	// MapEntries is the number of entries of a map in the body of a write, or of a list in
	// its metadata.
	MapEntries int `json:"mapEntries"`
	// LargestList is the size of the objects of one list.
	LargestList resource.Quantity `json:"largestList"`
	// NamespacePercent is the part of etcd.embedded.quotaBackend that the objects of one
	// namespace may take.
	NamespacePercent int `json:"namespacePercent"`
	// IdleTypes is the estimated memory of types of CRDs without requests or watches.
	IdleTypes resource.Quantity `json:"idleTypes"`
}

func defaultLimits() Limits {
	return Limits{
		ConnectionsPerAddress: 1000, WatchesPerUser: 3000, MapEntries: 10_000,
		LargestList: resource.MustParse("512Mi"), NamespacePercent: 25,
		IdleTypes: resource.MustParse("256Mi"),
	}
}

func (l *Limits) validate(fail func(path, format string, args ...any)) {
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"connectionsPerAddress", int64(l.ConnectionsPerAddress)}, {"watchesPerUser", int64(l.WatchesPerUser)},
		{"mapEntries", int64(l.MapEntries)},
		{"largestList", l.LargestList.Value()}, {"namespacePercent", int64(l.NamespacePercent)},
		{"idleTypes", l.IdleTypes.Value()},
	} {
		if field.value < 0 {
			fail("limits."+field.name, "%d is negative; 0 is without limit", field.value)
		}
	}
	if l.NamespacePercent > 100 {
		fail("limits.namespacePercent", "%d is out of range; allowed: 0 to 100", l.NamespacePercent)
	}
}
