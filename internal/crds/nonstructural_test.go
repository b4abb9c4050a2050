package crds

import (
	"context"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	client "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// statusRecorder records what a controller writes.
type statusRecorder struct {
	client.CustomResourceDefinitionInterface
	written chan *apiextensionsv1.CustomResourceDefinition
}

func (r statusRecorder) CustomResourceDefinitions() client.CustomResourceDefinitionInterface {
	return r
}

func (r statusRecorder) UpdateStatus(_ context.Context, crd *apiextensionsv1.CustomResourceDefinition, _ metav1.UpdateOptions) (*apiextensionsv1.CustomResourceDefinition, error) {
	r.written <- crd
	return crd, nil
}

// TestStoredSchemasThatAreNotStructural: a CRD that apiextensions.k8s.io/v1beta1 could
// create gets the condition that says what is wrong with its schema, although the informer
// has no schemas. Another one does not.
func TestStoredSchemasThatAreNotStructural(t *testing.T) {
	s := newTestServer(t)
	s.install(t)
	old := newDefinition(t, unconverted)
	old.Name, old.UID = "gadgets.example.com", "old"
	old.Spec.Names.Plural, old.Spec.Names.Singular, old.Spec.Names.Kind, old.Spec.Names.ListKind = "gadgets", "gadget", "Gadget", "GadgetList"
	old.Spec.PreserveUnknownFields = ptr(true)
	old.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensions.JSONSchemaProps{
		Properties: map[string]apiextensions.JSONSchemaProps{"size": {Type: "integer"}},
	}
	definitions := s.front.definitions
	store := s.registry.Store.Storage.Storage // without validation
	if err := store.Create(definitionContext(t), definitions.key(old.Name), old, &apiextensions.CustomResourceDefinition{}, 0); err != nil {
		t.Fatal(err)
	}

	informer := newLightInformer(definitions.source())
	recorder := statusRecorder{written: make(chan *apiextensionsv1.CustomResourceDefinition, 2)}
	reader := customresources.LightDefinitions{Metadata: definitions.getMetadata, Whole: s.front.whole, Lighten: lighten}
	controller := nonstructuralschema.NewConditionController(reader.MaybeNonStructural(informer.Informer()), recorder)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.Informer().Run(ctx.Done()) })
	running.Go(func() { controller.RunWithContext(1, ctx) })
	defer running.Wait()
	defer stop()

	written := <-recorder.written
	condition := apihelpers.FindCRDCondition(written, apiextensionsv1.NonStructuralSchema)
	if written.Name != old.Name || condition == nil || condition.Status != apiextensionsv1.ConditionTrue {
		t.Fatalf("%s gets %+v", written.Name, condition)
	}
	for _, want := range []string{"spec.preserveUnknownFields: Invalid value: true", "properties[spec].type: Required value"} {
		if !strings.Contains(condition.Message, want) {
			t.Errorf("the message lacks %q: %s", want, condition.Message)
		}
	}
}
