package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// recordPrefix records the key prefix of a resource.
func (s *Storage) recordPrefix(resource schema.GroupResource, prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prefixes[resource] = prefix
}

// HasObjects reports whether the resource has objects in the namespace: it reads one key.
// It does not include the objects of aggregated API servers.
func (s *Storage) HasObjects(ctx context.Context, resource schema.GroupResource, namespace string) (bool, error) {
	prefix := store.NamespaceKeys(s.config.Prefix, s.prefix(resource), namespace)
	response, err := s.connection.Client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithLimit(1))
	if err != nil {
		return false, fmt.Errorf("read the keys of %s in namespace %s: %w", resource, namespace, err)
	}
	return len(response.Kvs) > 0, nil
}

// CountAll returns the number of all stored objects. It does not include those of
// aggregated API servers.
func (s *Storage) CountAll(ctx context.Context) (int64, error) {
	options := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCountOnly()}
	if s.connection.Single {
		options = append(options, clientv3.WithSerializable()) // kine refuses these
	}
	response, err := s.connection.Client.Get(ctx, path.Join("/", s.config.Prefix)+"/", options...)
	if err != nil {
		return 0, fmt.Errorf("count all objects: %w", err)
	}
	return response.Count, nil
}

// Compact removes the history of the objects up to a revision, unless that is 0, and returns the
// current one. The compactor does so only in a server that runs for twice its interval.
func (s *Storage) Compact(ctx context.Context, revision int64) (current int64, err error) {
	if revision > 0 {
		if _, err := s.connection.Client.Compact(ctx, revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return 0, fmt.Errorf("compact the history: %w", err)
		}
	}
	response, err := s.connection.Client.Get(ctx, path.Join("/", s.config.Prefix), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("read the revision: %w", err)
	}
	return response.Header.Revision, nil
}

// prefix returns the key prefix of the resource below the common prefix.
func (s *Storage) prefix(resource schema.GroupResource) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if prefix, ok := s.prefixes[resource]; ok {
		return prefix
	}
	return store.CustomResourcePrefix(resource)
}

// knownPrefixes returns the key prefixes of the resources that have a store.
func (s *Storage) knownPrefixes() map[schema.GroupResource]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.prefixes)
}

// singlePrefixes returns the key prefixes that are one segment of a path: those of most
// built-in resources.
func (s *Storage) singlePrefixes() map[string]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefixes := map[string]struct{}{}
	for _, prefix := range s.prefixes {
		if store.HasOwnSegment(prefix) {
			prefixes[prefix] = struct{}{}
		}
	}
	return prefixes
}
