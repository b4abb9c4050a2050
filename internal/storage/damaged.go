package storage

import "fmt"

// damagedObject is an object that etcd has and no list can decode.
type damagedObject struct {
	key string
	err error
}

// Damage returns the last object of a built-in type that a list could not decode, with the
// remedy; nil if there was none. The watch cache of its type is not filled, so that a server
// with it does not become ready.
func (s *Storage) Damage() error {
	damaged := s.damaged.Load()
	if damaged == nil {
		return nil
	}
	return fmt.Errorf("the damaged object with the key %q in etcd to be replaced or deleted: %w; restore a backup, "+
		"with \"kube-hyper-mini backup restore FILE\", "+
		"or start with apiServer.featureGates: {AllowUnsafeMalformedObjectDeletion: true} and delete it with "+
		"\"kubectl delete --raw PATH?ignoreStoreReadErrorWithClusterBreakingPotential=true\"", damaged.key, damaged.err)
}
