package controllers

import (
	"context"
	"strings"
	"testing"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// noTypes is a mapper without types.
type noTypes struct {
	meta.ResettableRESTMapper
	asked chan struct{}
}

func (n noTypes) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	n.asked <- struct{}{}
	return nil, &meta.NoResourceMatchError{PartialResource: r}
}

// TestMigrationOfADeletedType: the migrator tries again. It ended the process.
func TestMigrationOfADeletedType(t *testing.T) {
	migration := &migrationv1beta1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "gone"},
		Spec: migrationv1beta1.StorageVersionMigrationSpec{Resource: metav1.GroupResource(widgets.GroupResource())}}
	migration.Status.ResourceVersion = "5"
	migration.Status.Conditions = []metav1.Condition{{Type: string(migrationv1beta1.MigrationRunning), Status: metav1.ConditionTrue}}
	client := fake.NewClientset(migration)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	set := testInformers(t)
	factory := informers.NewSharedInformerFactory(client, 0)
	mapper := noTypes{asked: make(chan struct{})}
	env := &environment{config: Config{Client: &rest.Config{}, Informers: factory}, mapper: mapper, monitorInformers: set,
		visible: testVisible(newServer("a.example.org/v1"), newStore())}
	env.graph = garbagecollector.NewDependencyGraphBuilder(ctx, set.client, mapper, nil, env.newMonitors(), nil)
	env.informers = termInformers{factory, env.atEnd}
	run, err := buildStorageVersionMigrator(ctx, env, client)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	ended := make(chan struct{})
	go func() { defer close(ended); run(ctx) }()
	for range 3 {
		<-mapper.asked
	}
	go func() {
		for range mapper.asked {
		}
	}()
	cancel()
	<-ended
	close(mapper.asked)
}

// TestMigratedTypes: the migrator finds its type before the one without a version.
func TestMigratedTypes(t *testing.T) {
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(widgets.GroupVersion().WithKind("Widget"), meta.RESTScopeNamespace)
	for _, c := range []struct {
		mapper meta.RESTMapper
		first  schema.GroupVersionResource
	}{{known, widgets}, {meta.NewDefaultRESTMapper(nil), widgets.GroupResource().WithVersion("")}} {
		mapper := migratedTypes{resettable{c.mapper}}
		found, err := mapper.ResourcesFor(widgets.GroupResource().WithVersion(""))
		if err != nil || found[0] != c.first {
			t.Errorf("got %v, %v, want %v", found, err, c.first)
		}
	}
}

type resettable struct{ meta.RESTMapper }

func (resettable) Reset() {}

// TestMigrationsWaitForTheNewestObject: the monitor of a type has it. It learned the store's
// revision with a bookmark, once a minute.
func TestMigrationsWaitForTheNewestObject(t *testing.T) {
	for _, c := range []struct {
		versions []string
		want     string
	}{{nil, "1"}, {[]string{"9", "12", "8"}, "12"}, {[]string{"opaque"}, "opaque"}} {
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		var objects []runtime.Object
		for _, version := range c.versions {
			objects = append(objects, &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"},
				ObjectMeta: metav1.ObjectMeta{Name: "w" + version, Namespace: "default", ResourceVersion: version},
			})
		}
		client := newestObjects{metadatafake.NewSimpleMetadataClient(scheme, objects...)}
		list, err := client.Resource(widgets).Namespace("@none").List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil || list.ResourceVersion != c.want {
			t.Errorf("versions %v: got %v, %v, want %s", c.versions, list.ResourceVersion, err, c.want)
		}
	}
}

// TestMigrationOfAnUnmonitoredType: it fails with the reason. It waited for a monitor for ever.
func TestMigrationOfAnUnmonitoredType(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"", "events.k8s.io"} {
		events := newestObjects{metadatafake.NewSimpleMetadataClient(scheme)}.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "events"})
		list, err := events.Namespace("@none").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = resourceversion.CompareResourceVersion(list.ResourceVersion, list.ResourceVersion) // as upstream
		if err == nil || !strings.Contains(err.Error(), "does not monitor") {
			t.Errorf("group %q: %v", group, err)
		}
	}
}
