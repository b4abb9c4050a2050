package apiserver

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Encrypt encrypts a test value as the server encrypts objects of the resource at the
// moment. It follows changes of the encryption configuration.
func (s *Server) Encrypt(ctx context.Context, resource schema.GroupResource) ([]byte, error) {
	if s.encryption == nil {
		return nil, errors.New("the server was started without encryption")
	}
	return s.encryption.TransformerForResource(resource).TransformToStorage(ctx, []byte("a value"),
		store.ValueContext("a key"))
}
