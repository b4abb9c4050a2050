package controllers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

type onlyConfigMaps struct{ remoteOnly }

func (onlyConfigMaps) Serves(resource schema.GroupVersionResource) bool {
	return resource == configMaps
}

// TestQuotasWithATypeThatCannotBeListed: it stopped all quotas. One that names the type has no
// usage, so that admission refuses its objects.
func TestQuotasWithATypeThatCannotBeListed(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // one sleeps until a time that is not the test's
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		const things = "count/things.remote.example.org"
		quotas := []runtime.Object{}
		for name, counted := range map[string]corev1.ResourceName{"fine": "configmaps", "broken": things} {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			quota.Spec.Hard = corev1.ResourceList{counted: apiresource.MustParse("1")}
			quotas = append(quotas, quota)
		}
		client := fake.NewClientset(quotas...)
		factory := informers.NewSharedInformerFactory(client, 0)
		ctx, cancel := context.WithCancel(t.Context())
		set := testInformers(t)
		set.ctx, set.typed = ctx, factory
		set.client.(*metadatafake.FakeMetadataClient).PrependReactor("list", "things", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("the conversion webhook is down")
		})
		s := newServer("remote.example.org/v1")
		s.lists[0].APIResources[0].Verbs = metav1.Verbs{"create", "delete", "list", "watch"}
		visible := testVisible(s, newStore())
		update(t, visible)
		env := &environment{config: Config{Informers: factory, Types: onlyConfigMaps{}}, types: visible.all, visible: visible,
			monitorInformers: set, informersStarted: make(chan struct{})}
		env.informers = termInformers{factory, env.atEnd}
		run, err := buildResourceQuota(ctx, env, client)
		if err != nil {
			t.Fatal(err)
		}
		factory.Core().V1().ConfigMaps().Informer() // that of a monitored type
		env.startInformers(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		for name, counted := range map[string]corev1.ResourceName{"fine": "configmaps", "broken": things} {
			quota, err := client.CoreV1().ResourceQuotas("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, hard := quota.Status.Hard[counted]; !hard {
				t.Errorf("quota %s has no status", name)
			}
			if _, used := quota.Status.Used[counted]; used != (name == "fine") {
				t.Errorf("quota %s has the usage %v", name, quota.Status.Used)
			}
		}
		cancel()
		<-ended
		set.running.Wait()
		factory.Shutdown()
	})
}
