package config

import "k8s.io/apimachinery/pkg/api/resource"

// Limits bound what one client can cost the others. 0 switches a bound off. The service accounts of a
// namespace count as one user.
type Limits struct {
	// ConnectionsPerAddress is the number of connections of one client address.
	ConnectionsPerAddress int `json:"connectionsPerAddress"`
	// WatchesPerUser is the number of open watches of one user.
	WatchesPerUser int `json:"watchesPerUser"`
	// Entries is the number of entries of a map or a list in the body of a write (0 allows any nesting,
	// too), PatchEntries that of a list in a JSON patch or a strategic merge patch.
	Entries      int `json:"entries"`
	PatchEntries int `json:"patchEntries"`
	// LargestHeader is the size of the header of a request with its path and query.
	LargestHeader resource.Quantity `json:"largestHeader"`
	// LargestReview is the size of the body of a review, which any user may send, and of a deletion.
	LargestReview resource.Quantity `json:"largestReview"`
	// WritesAtOnce is the size of the bodies of one user that are handled at a time.
	WritesAtOnce resource.Quantity `json:"writesAtOnce"`
	// LargestList is the size of the objects of one list, LargestYAMLList that of one in YAML.
	LargestList     resource.Quantity `json:"largestList"`
	LargestYAMLList resource.Quantity `json:"largestYAMLList"`
	// ListsAtOnce is the size of the objects of all large lists that are served at a time.
	ListsAtOnce resource.Quantity `json:"listsAtOnce"`
	// NamespacePercent is the part of etcd.embedded.quotaBackend that the objects of one
	// namespace may take.
	NamespacePercent int `json:"namespacePercent"`
	// IdleTypes is the estimated memory of types of CRDs without requests or watches.
	IdleTypes resource.Quantity `json:"idleTypes"`
}

func defaultLimits() Limits {
	return Limits{
		ConnectionsPerAddress: 1000, WatchesPerUser: 3000, Entries: 10_000, PatchEntries: 1000,
		LargestHeader: resource.MustParse("64Ki"), LargestReview: resource.MustParse("64Ki"),
		WritesAtOnce: resource.MustParse("4Mi"),
		LargestList:  resource.MustParse("512Mi"), LargestYAMLList: resource.MustParse("4Mi"),
		ListsAtOnce:      resource.MustParse("128Mi"),
		NamespacePercent: 25, IdleTypes: resource.MustParse("256Mi"),
	}
}

func (l *Limits) validate(fail func(path, format string, args ...any)) {
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"connectionsPerAddress", int64(l.ConnectionsPerAddress)}, {"watchesPerUser", int64(l.WatchesPerUser)},
		{"entries", int64(l.Entries)}, {"patchEntries", int64(l.PatchEntries)},
		{"largestHeader", l.LargestHeader.Value()}, {"largestReview", l.LargestReview.Value()},
		{"writesAtOnce", l.WritesAtOnce.Value()},
		{"largestList", l.LargestList.Value()}, {"largestYAMLList", l.LargestYAMLList.Value()},
		{"listsAtOnce", l.ListsAtOnce.Value()},
		{"namespacePercent", int64(l.NamespacePercent)},
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
