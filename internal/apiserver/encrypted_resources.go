package apiserver

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// checkEncryptedResources returns an error for each configured resource that no server stores:
// because of such a mistake the meant resource would be stored in plain text. Custom resources
// cannot be checked. Control planes have the list of their host, and profiles of their own.
func (o *Options) checkEncryptedResources() error {
	resources := o.settings.APIServer.Encryption.Resources
	var errs []error
	for i, resource := range resources {
		if message := o.unknownResource(resource); message != "" {
			errs = append(errs, &config.FieldError{Path: fmt.Sprintf("apiServer.encryption.resources[%d]", i), Message: message})
		}
	}
	if len(errs) > 0 || len(resources) == 0 {
		return errors.Join(errs...)
	}
	// Upstream's rules for names and wildcards, which the start would apply.
	key := apiserver.Key{Name: "key", Secret: base64.StdEncoding.EncodeToString(make([]byte, 32))}
	problems := validation.ValidateEncryptionConfiguration(
		&apiserver.EncryptionConfiguration{Resources: []apiserver.ResourceConfiguration{{
			Resources: resources,
			Providers: []apiserver.ProviderConfiguration{{Secretbox: &apiserver.SecretboxConfiguration{
				Keys: []apiserver.Key{key}}}},
		}}}, true)
	for _, problem := range problems {
		errs = append(errs, &config.FieldError{Path: "apiServer.encryption.resources", Message: problem.ErrorBody()})
	}
	return errors.Join(errs...)
}

// unknownResource returns the errors of "name", "name.group" or a wildcard; "" for
// nothing.
func (o *Options) unknownResource(text string) string {
	resource := schema.ParseGroupResource(text)
	if text == "*.*" || text == "*." || isWorkload(resource) {
		return ""
	}
	names, builtIn := kube.StoredTypes[resource.Group]
	if builtIn {
		if slices.Contains(names, resource.Resource) || resource.Resource == "*" {
			return ""
		}
		for group, names := range kube.StoredTypes {
			if resource.Group == "" && slices.Contains(names, resource.Resource) {
				return fmt.Sprintf("%q is not stored by this server; did you mean %q?", text, resource.Resource+"."+group)
			}
		}
		return fmt.Sprintf("%q is not stored by this server%s", text, config.Suggest(text, builtInNames()))
	}
	if !strings.Contains(resource.Group, ".") {
		return fmt.Sprintf("the group of %q is unknown; groups of custom resources have a dot, as in \"widgets.example.com\"",
			text)
	}
	return ""
}

func builtInNames() []string {
	var list []string
	for group, names := range kube.StoredTypes {
		for _, name := range names {
			list = append(list, schema.GroupResource{Group: group, Resource: name}.String())
		}
	}
	slices.Sort(list)
	return list
}

// Encrypt encrypts a test value as the server encrypts objects of the resource at the
// moment. It follows changes of the encryption configuration.
func (s *Server) Encrypt(ctx context.Context, resource schema.GroupResource) ([]byte, error) {
	if s.encryption == nil {
		return nil, errors.New("the server was started without encryption")
	}
	return s.encryption.TransformerForResource(resource).TransformToStorage(ctx, []byte("a value"),
		store.ValueContext("a key"))
}
