package endpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// TestDefinitionVersion: a changed definition has another version, by which the
// servers that share an etcd know whose is newer.
func TestDefinitionVersion(t *testing.T) {
	const version, digest = 2, "95acc09ba4c2c479"
	crd, err := definition()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(definitionFile)
	if got := hex.EncodeToString(sum[:8]); got != digest || versionOf(crd) != version {
		t.Errorf("the definition has the digest %s and the version %d, and had %s and %d: raise its annotation %s and write both here",
			got, versionOf(crd), digest, version, versionAnnotation)
	}
}
