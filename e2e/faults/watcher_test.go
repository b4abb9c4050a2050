package faults

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// watcher keeps a copy of the config maps as an informer does, across restarts
// of the server. It also checks that versions never go back.
type watcher struct {
	maps typedcorev1.ConfigMapInterface

	mu      sync.Mutex
	copy    map[string]string // name to version
	newest  uint64
	listed  int
	resumed int
	problem error
}

// run lists and watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	from := ""
	for ctx.Err() == nil {
		if from == "" {
			from = w.list(ctx)
		}
		if from != "" {
			from = w.watch(ctx, from)
		}
		select { // the server may not run
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// list replaces the copy and returns the version to watch from.
func (w *watcher) list(ctx context.Context) string {
	list, err := w.maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance("a list", list.ResourceVersion, true)
	w.listed++
	w.copy = map[string]string{}
	for _, item := range list.Items {
		w.copy[item.Name] = item.ResourceVersion
	}
	return list.ResourceVersion
}

// watch follows until the watch ends, and returns the version to resume from;
// empty if an error requires a new list.
func (w *watcher) watch(ctx context.Context, from string) string {
	events, err := w.maps.Watch(ctx, metav1.ListOptions{ResourceVersion: from})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return ""
	}
	if err != nil {
		return from
	}
	defer events.Stop()
	first := true
	for event := range events.ResultChan() {
		item, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			return ""
		}
		w.mu.Lock()
		w.advance("an event", item.ResourceVersion, false)
		if w.copy[item.Name] = item.ResourceVersion; event.Type == watch.Deleted {
			delete(w.copy, item.Name)
		}
		if first {
			w.resumed++
		}
		w.mu.Unlock()
		from, first = item.ResourceVersion, false
	}
	return from
}

// advance records a version. A list may repeat the last version, an event may
// not.
func (w *watcher) advance(what, text string, same bool) {
	now := version(text)
	if now < w.newest || now == w.newest && !same {
		w.problem = fmt.Errorf("%s with version %s comes after %d", what, text, w.newest)
	}
	w.newest = max(w.newest, now)
}

// sees returns an error if the copy differs from the list.
func (w *watcher) sees(want map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.problem != nil {
		return w.problem
	}
	if !maps.Equal(w.copy, want) {
		return fmt.Errorf("a watcher has %d objects, or others than the %d of the list", len(w.copy), len(want))
	}
	return nil
}
