package crds

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// heldReads is a store whose reads of one key wait until held is closed.
type heldReads struct {
	storage.Interface
	key     string
	held    chan struct{}
	waiting chan struct{} // gets a value for each read that waits
	ended   atomic.Bool   // the context of a read has ended before
}

// Get implements [storage.Interface].
func (h *heldReads) Get(ctx context.Context, key string, options storage.GetOptions, object runtime.Object) error {
	if strings.HasSuffix(key, h.key) {
		h.waiting <- struct{}{}
		select {
		case <-h.held:
		case <-ctx.Done():
			h.ended.Store(true)
			return ctx.Err()
		}
	}
	return h.Interface.Get(ctx, key, options, object)
}

// holdReads holds the front's reads of the CRD of widgets.
func (s *testServer) holdReads() *heldReads {
	store := s.registry.REST.Store
	held := &heldReads{Interface: store.Storage.Storage, key: "/widgets.example.com", held: make(chan struct{}), waiting: make(chan struct{}, 10)}
	s.front.definitions.whole = &customresourcedefinition.REST{Store: &genericregistry.Store{
		NewFunc: store.NewFunc, DefaultQualifiedResource: store.DefaultQualifiedResource, KeyFunc: store.KeyFunc,
		Storage: genericregistry.DryRunnableStorage{Storage: held, Codec: store.Storage.Codec},
	}}
	return held
}

// installGears creates another CRD.
func (s *testServer) installGears(t *testing.T) {
	t.Helper()
	crd := newDefinition(t, unconverted)
	crd.Name = "gears.example.com"
	crd.Spec.Names = apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "Gear", ListKind: "GearList"}
	if _, err := s.registry.Create(definitionContext(t), crd, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestReadsOfOneDefinitionDelayNoOther: while the CRD of a type cannot be read, other
// types are built and changed.
func TestReadsOfOneDefinitionDelayNoOther(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	s.installGears(t)
	held := s.holdReads()
	created := make(chan error)
	go func() {
		_, err := s.objects.Namespace("default").Create(t.Context(), widget("one"), metav1.CreateOptions{})
		created <- err
	}()
	<-held.waiting
	gears := s.client.Resource(widgetResource.GroupVersion().WithResource("gears")).Namespace("default")
	gear := widget("one")
	gear.SetKind("Gear")
	if _, err := gears.Create(t.Context(), gear, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	s.updateNamed(t, "gears.example.com", func(crd *apiextensions.CustomResourceDefinition) {
		crd.Spec.Versions[1].Schema.OpenAPIV3Schema.Description = "changed"
	})
	if _, err := gears.Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	close(held.held)
	if err := <-created; err != nil {
		t.Error(err)
	}
	if held.ended.Load() {
		t.Error("the change of a CRD has waited until the read of another one ended")
	}
}

// TestRequestsShareTheReadOfADefinition: requests that come while the CRD of their type is
// read wait for it. When the client whose request reads it goes away, another one reads.
func TestRequestsShareTheReadOfADefinition(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	s.front.empty = nil // requests reach the handler, as those of a type with objects
	held := s.holdReads()
	first, leave := context.WithCancel(t.Context())
	done := make(chan error)
	get := func(ctx context.Context) {
		_, err := s.objects.Namespace("default").Get(ctx, "none", metav1.GetOptions{})
		done <- err
	}
	go get(first)
	<-held.waiting
	const others = 3
	for range others {
		go get(t.Context())
	}
	leave()
	if err := <-done; err == nil || apierrors.IsNotFound(err) {
		t.Errorf("the request that was given up: %v", err)
	}
	<-held.waiting
	close(held.held)
	for range others {
		if err := <-done; !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want that the object is not found", err)
		}
	}
	if len(held.waiting) != 0 {
		t.Error("a CRD was read more than once at a time")
	}
}

// TestTypesChangeBeforeTheHandlerHasThem: a request that begins after a change was
// answered is served by the changed CRD, also when another one has not reached the handler
// with the CRD before it.
func TestTypesChangeBeforeTheHandlerHasThem(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	before := s.front.catalog.get("widgets.example.com")
	whole, err := s.front.definitions.get(definitionContext(t), before.Name)
	if err != nil {
		t.Fatal(err)
	}
	s.front.types[before.Name] = &servedType{whole: whole, users: 1} // a request on its way to the handler
	s.change(t, "changed")
	if old, err := s.front.source(before.Name); err != nil || old != whole {
		t.Errorf("the request on its way gets %v, %v", old, err)
	}
	s.create(t, "one")
	now, err := s.front.source(before.Name)
	if err != nil || now.Spec.Versions[1].Schema.OpenAPIV3Schema.Description != "changed" {
		t.Errorf("the type is built from %v, %v", now, err)
	}
	s.front.endUse(before.Name, s.front.types[before.Name])
	if s.front.resident() != 1 {
		t.Error("the changed type is not served any more")
	}
}
