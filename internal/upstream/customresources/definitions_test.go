package customresources_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/apiextensions-apiserver/pkg/controller/establish"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// TestEstablishAccepted: the establishing controller establishes the CRDs whose names are
// accepted, those that were there before it, too, and no others.
func TestEstablishAccepted(t *testing.T) {
	definition := func(name string, accepted apiextensionsv1.ConditionStatus) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: apiextensionsv1.CustomResourceDefinitionStatus{
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.NamesAccepted, Status: accepted}},
		}}
	}
	client := fake.NewSimpleClientset(definition("before", apiextensionsv1.ConditionTrue), definition("refused", apiextensionsv1.ConditionFalse))
	factory := externalversions.NewSharedInformerFactory(client, 0)
	informer := factory.Apiextensions().V1().CustomResourceDefinitions()
	controller := establish.NewEstablishingController(informer, client.ApiextensionsV1())
	if err := customresources.EstablishAccepted(informer, controller, func() time.Duration { return 0 }); err != nil {
		t.Fatal(err)
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	changes, err := definitions.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.RunWithContext(ctx)
	}()
	defer func() {
		cancel()
		<-ended
		factory.Shutdown()
	}()
	factory.WaitForCacheSyncWithContext(ctx)
	established := func(name string) {
		t.Helper()
		for {
			var event watch.Event
			select {
			case event = <-changes.ResultChan():
			case <-time.After(time.Minute):
				t.Fatalf("%s is not established", name)
			}
			crd, isDefinition := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			if !isDefinition || event.Type != watch.Modified || len(crd.Status.Conditions) < 2 {
				continue
			}
			if crd.Name != name || crd.Status.Conditions[1].Type != apiextensionsv1.Established {
				t.Errorf("%s has the conditions %v", crd.Name, crd.Status.Conditions)
			}
			return
		}
	}
	established("before")
	if _, err := definitions.Create(ctx, definition("new", apiextensionsv1.ConditionTrue), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	established("new")
}

// TestDefinitionsMediaType: which lists of CRDs are converted, and which are refused.
func TestDefinitionsMediaType(t *testing.T) {
	const table, metadata = "as=Table;v=v1;g=meta.k8s.io", "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	for accept, want := range map[string]string{
		"": "-", "*/*": "-", "application/json": "-", "application/yaml": "-", "application/vnd.kubernetes.protobuf": "-",
		"application/json;" + table: "Table", "application/json;" + table + ",application/json": "Table", "application/yaml;" + table: "Table",
		"application/vnd.kubernetes.protobuf;" + table + ",application/json": "-",
		"application/json;" + metadata:                                       "PartialObjectMetadataList",
		"application/vnd.kubernetes.protobuf;" + metadata:                    "PartialObjectMetadataList",
		"image/png": "", "application/vnd.kubernetes.protobuf;" + table: "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", nil)
		r.Header.Set("Accept", accept)
		got := "-"
		media, err := customresources.DefinitionsMediaType(r)
		switch {
		case err != nil:
			got = ""
		case media.Convert != nil:
			got = media.Convert.Kind
		}
		if got != want {
			t.Errorf("%q: %q, want %q (%v)", accept, got, want, err)
		}
	}
}
