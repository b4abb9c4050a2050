package backup

import (
	"regexp"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// buildSuffix matches what `git describe` adds to a tag: the number of commits
// since, the hash, and "-dirty".
var buildSuffix = regexp.MustCompile(`(-[0-9]+-g[0-9a-f]+)?(-dirty)?$`)

// tagged matches a version that has a tag.
var tagged = regexp.MustCompile(`^v[0-9]`)

// sameRelease reports whether two stamps are of builds of one release with the same
// libraries. Builds without a tag are of the same release, which is none.
func sameRelease(a, b datadir.Stamp) bool {
	a.Version, b.Version = releaseOf(a.Version), releaseOf(b.Version)
	return a == b
}

func releaseOf(version string) string {
	if !tagged.MatchString(version) || version == "v0.0.0-dev" {
		return ""
	}
	return buildSuffix.ReplaceAllString(version, "")
}
