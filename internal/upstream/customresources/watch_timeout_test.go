package customresources_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// timedWatcher records the deadline of a watch and refuses it.
type timedWatcher struct{ deadline time.Time }

func (w *timedWatcher) Watch(ctx context.Context, _ *internalversion.ListOptions) (watch.Interface, error) {
	w.deadline, _ = ctx.Deadline()
	return nil, errors.New("refused")
}

// TestWatchTimeout: a watch lasts as long as one of the API handler.
func TestWatchTimeout(t *testing.T) {
	const minTimeout = time.Hour
	seven := int64(7)
	for query, test := range map[string]struct {
		options       internalversion.ListOptions
		least, atMost time.Duration
	}{
		"watch=1":                  {internalversion.ListOptions{}, minTimeout, 2 * minTimeout},
		"watch=1&timeoutSeconds=7": {internalversion.ListOptions{TimeoutSeconds: &seven}, 7 * time.Second, 7 * time.Second},
	} {
		p := &customresources.PlainRequest{Options: test.options}
		if got := p.WatchTimeout(minTimeout); got < test.least || got > test.atMost {
			t.Errorf("%s lasts %s", query, got)
		}
		watcher := &timedWatcher{}
		scope := &handlers.RequestScope{
			Namer: handlers.ContextBasedNaming{ClusterScoped: true}, Serializer: apiserver.Codecs, Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
			MetaGroupVersion: metav1.SchemeGroupVersion, Convertor: runtime.ObjectConvertor(apiserver.Scheme),
		}
		r := httptest.NewRequest("GET", "/apis/example.com/v1/widgets?"+query, nil)
		r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: "watch", APIGroup: "example.com", APIVersion: "v1", Resource: "widgets"}))
		before := time.Now()
		handlers.ListResource(nil, watcher, scope, true, minTimeout)(httptest.NewRecorder(), r)
		if watcher.deadline.Before(before.Add(test.least)) || watcher.deadline.After(time.Now().Add(test.atMost)) {
			t.Errorf("%s of the API handler lasts %s", query, watcher.deadline.Sub(before))
		}
	}
}
