package planes

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// observer is a client that notes what it is told.
type observer struct {
	name      string
	resource  schema.GroupVersionResource
	namespace string
	history   *history
	watches   atomic.Int32 // that it opened
	lists     atomic.Int32
}

// configOf returns the configuration of the host's administrator for a control plane.
func (h *testHost) configOf(name string) *rest.Config {
	config := rest.CopyConfig(h.config)
	config.Host += prefix + name
	return config
}

// counted returns the configuration with a count of the watches and lists.
func (o *observer) counted(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			query := r.URL.Query()
			if query.Get("watch") != "" {
				o.watches.Add(1)
			}
			if query.Get("watch") == "" || query.Get("sendInitialEvents") == "true" {
				o.lists.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

// store is that of a reflector.
type store struct{ *history }

// Add implements [cache.ReflectorStore].
func (s *store) Add(o any) error { s.note("+", o); return nil }

// Update implements [cache.ReflectorStore].
func (s *store) Update(o any) error { s.note("~", o); return nil }

// Delete implements [cache.ReflectorStore].
func (s *store) Delete(o any) error { s.note(deleted, o); return nil }

// Replace implements [cache.ReflectorStore].
func (s *store) Replace(list []any, _ string) error {
	newest, listed := uint64(0), map[string]bool{}
	for _, o := range list {
		s.last = 0 // lists are sorted by name
		listed[s.note("=", o)] = true
		newest = max(newest, s.last)
	}
	s.last = newest
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, events := range s.objects {
		if !listed[key] && events[len(events)-1] != deleted {
			s.objects[key] = append(events, deleted)
		}
	}
	return nil
}

// Resync implements [cache.ReflectorStore].
func (s *store) Resync() error { return nil }

// handlers note the events of an informer.
func (o *observer) handlers() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { o.history.note("+", added) },
		UpdateFunc: func(_, updated any) { o.history.note("=", updated) },
		DeleteFunc: func(gone any) {
			if unknown, ok := gone.(cache.DeletedFinalStateUnknown); ok {
				gone = unknown.Obj
			}
			o.history.note(deleted, gone)
		},
	}
}

// startClients starts clients of all kinds, and returns when they have what is there.
func startClients(t *testing.T, config *rest.Config) []*observer {
	t.Helper()
	var all []*observer
	start := func(name string, resource schema.GroupVersionResource, namespace string, run func(o *observer, config *rest.Config) error) {
		o := &observer{name: name, resource: resource, namespace: namespace, history: newHistory()}
		if err := run(o, o.counted(config)); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	start("a reflector that lists by watching", configMaps, "", func(o *observer, config *rest.Config) error { return o.reflectMaps(t, config, true) })
	start("a reflector that lists", configMaps, "", func(o *observer, config *rest.Config) error { return o.reflectMaps(t, config, false) })
	start("an informer of metadata", configMaps, "default", func(o *observer, config *rest.Config) error {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return err
		}
		selected := func(options *metav1.ListOptions) { options.LabelSelector = "test" }
		return o.inform(t, metadatainformer.NewFilteredMetadataInformer(client, configMaps, o.namespace, 0, nil, selected).Informer())
	})
	start("an informer of custom resources", widgets, "", func(o *observer, config *rest.Config) error {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		return o.inform(t, dynamicinformer.NewFilteredDynamicInformer(client, widgets, o.namespace, 0, nil, nil).Informer())
	})
	start("a reflector of custom resources", widgets, "default", func(o *observer, config *rest.Config) error {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		resource := client.Resource(widgets).Namespace(o.namespace)
		o.reflect(t, false, &unstructured.Unstructured{},
			func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, options)
			}, resource.Watch)
		return nil
	})
	return all
}

// reflectMaps starts a reflector of config maps in protobuf.
func (o *observer) reflectMaps(t *testing.T, config *rest.Config, watchList bool) error {
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(o.namespace)
	o.reflect(t, watchList, &corev1.ConfigMap{}, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	}, maps.Watch)
	return nil
}

// reflect starts a reflector.
func (o *observer) reflect(t *testing.T, watchList bool, example any, list cache.ListWithContextFunc, watch cache.WatchFuncWithContext) {
	lists := &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watch}
	reflector := cache.NewReflector(cache.ToListWatcherWithWatchListSemantics(lists, semantics(!watchList)), example, &store{o.history}, 0)
	go reflector.RunWithContext(t.Context())
}

// semantics says that a client does not list by watching.
type semantics bool

// IsWatchListSemanticsUnSupported is read by reflectors.
func (s semantics) IsWatchListSemanticsUnSupported() bool { return bool(s) }

// inform runs an informer.
func (o *observer) inform(t *testing.T, informer cache.SharedIndexInformer) error {
	registered, err := informer.AddEventHandler(o.handlers())
	if err != nil {
		return err
	}
	go informer.RunWithContext(t.Context())
	cache.WaitForCacheSync(t.Context().Done(), registered.HasSynced)
	return nil
}
