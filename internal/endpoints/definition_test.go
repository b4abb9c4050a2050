package endpoints

import "testing"

// TestDefinitionVersion: a changed definition has another version, by which the
// servers that share an etcd know whose is newer.
func TestDefinitionVersion(t *testing.T) {
	const version, digest = 2, "33e30fd7744c5e38"
	crd, err := definition()
	if err != nil {
		t.Fatal(err)
	}
	if got := crd.GetAnnotations()[digestAnnotation]; got != digest || definitionVersion != version || versionOf(crd) != version {
		t.Errorf("the definition has the digest %s and the version %d, and had %s and %d: raise definitionVersion and write both here", got, definitionVersion, digest, version)
	}
}
