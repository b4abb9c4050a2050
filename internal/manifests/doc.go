// Package manifests applies the YAML files of a directory at each start and on
// change. A platform uses it to ship CRDs, RBAC, quotas and policies.
//
// It first applies the CRDs of all files and waits until they are served, then the other
// objects in the order of the paths. It uses server-side apply with a field manager of
// its own: fields of other managers stay. It retries objects that fail and applies the
// others. Every second it compares times and sizes of the files, which also detects
// volumes that are updated by replacing a link.
//
// A config map has the list of applied objects, written before they are applied. With prune,
// objects whose manifests were removed are deleted by a round without failures.
package manifests
