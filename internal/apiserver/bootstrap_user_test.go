package apiserver

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// countedAdmission counts the requests that it admits.
type countedAdmission struct{ admitted int }

func (c *countedAdmission) Handles(admission.Operation) bool { return true }

func (c *countedAdmission) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	c.admitted++
	return nil
}

func requestOf(requester user.Info) admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", admission.Create, nil, false, requester)
}

// TestBootstrapBypassesAdmission: the plugins see all requests but those of the bootstrap user.
func TestBootstrapBypassesAdmission(t *testing.T) {
	plugins := &countedAdmission{}
	admit := bootstrapAdmission{plugins}.Admit
	if err := admit(t.Context(), requestOf(bootstrapUser{&user.DefaultInfo{}}), nil); err != nil || plugins.admitted != 0 {
		t.Errorf("a bootstrap write: %v, %d calls of the plugins", err, plugins.admitted)
	}
	if err := admit(t.Context(), requestOf(&user.DefaultInfo{}), nil); err != nil || plugins.admitted != 1 {
		t.Errorf("another write: %v, %d calls of the plugins", err, plugins.admitted)
	}
}
