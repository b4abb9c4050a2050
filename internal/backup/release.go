package backup

import (
	"regexp"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// buildSuffix matches what `git describe` adds to a tag: the number of commits
// since, the hash, and "-dirty".
var buildSuffix = regexp.MustCompile(`(-[0-9]+-g[0-9a-f]+)?(-dirty)?$`)

// sameRelease reports whether two stamps are of builds of one release with the same
// libraries. A build without a tag is a release of its own, by its commit.
func sameRelease(a, b datadir.Stamp) bool {
	a.Version, b.Version = releaseOf(a.Version), releaseOf(b.Version)
	return a == b
}

func releaseOf(version string) string {
	return buildSuffix.ReplaceAllString(version, "")
}
