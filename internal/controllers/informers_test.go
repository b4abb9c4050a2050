package controllers

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
)

// TestInformersOfGoneTypesEnd: not at once, and never while the type is there.
func TestInformersOfGoneTypesEnd(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	with := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets"}}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets"}}},
	}
	types, now := with, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	set := newInformerSet(informers.NewSharedInformerFactory(fake.NewClientset(), 0), client, func() []*metav1.APIResourceList { return types })
	set.now = func() time.Time { return now }
	ctx, cancel := context.WithCancel(t.Context())
	first, err := set.ForResource(widgets)
	if err != nil {
		t.Fatal(err)
	}
	set.Start(ctx.Done())
	same := func() bool {
		set.forget()
		informer, err := set.ForResource(widgets)
		if err != nil {
			t.Fatal(err)
		}
		return informer == first
	}

	types = with[:1]
	if !same() {
		t.Error("the informer ends at once")
	}
	types, now = with, now.Add(2*forgetAfter)
	if !same() {
		t.Error("the informer of a type that has come back ends")
	}
	types = with[:1]
	if !same() {
		t.Error("the first absence counts for the second")
	}
	now = now.Add(forgetAfter)
	if same() {
		t.Error("the informer of a type that is gone does not end")
	}
	cancel()
	set.running.Wait() // hangs if one has not ended
	if !first.Informer().IsStopped() {
		t.Error("the informer runs")
	}
}
