// Package manifests applies the YAML files of a directory at each start and on
// change. A platform uses it to ship CRDs, RBAC, quotas and policies.
//
// The files are applied in the order of their paths, CRDs of all files first
// and waited for, by server-side apply with a field manager of its own: what
// others set on the same objects stays. What fails is tried again, and the
// others go on meanwhile. The directory is looked at every second by the
// times and sizes of its files, which also notices volumes that change by
// exchanging a link.
//
// What was applied is recorded in a config map, so that objects whose
// manifests have gone can be removed when asked (prune).
package manifests
