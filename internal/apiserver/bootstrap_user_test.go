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

// TestAdmissionWaitsForPlugins: only the bootstrap user's writes pass before the plugins
// are ready, and they are not subject to the plugins.
func TestAdmissionWaitsForPlugins(t *testing.T) {
	plugins, ready := &countedAdmission{}, make(chan struct{})
	admit := bootstrapAdmission{plugins, ready}.Admit
	if err := admit(t.Context(), requestOf(bootstrapUser{&user.DefaultInfo{}}), nil); err != nil || plugins.admitted != 0 {
		t.Errorf("a bootstrap write: %v, %d calls of the plugins", err, plugins.admitted)
	}
	admitted := make(chan error)
	go func() { admitted <- admit(t.Context(), requestOf(&user.DefaultInfo{}), nil) }()
	select {
	case err := <-admitted:
		t.Fatalf("admitted before the plugins are ready: %v", err)
	default:
	}
	close(ready)
	if err := <-admitted; err != nil || plugins.admitted != 1 {
		t.Errorf("after the plugins are ready: %v, %d calls of the plugins", err, plugins.admitted)
	}
}
