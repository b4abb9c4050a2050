package planes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

const (
	// probesAtOnce is the number of watches that are checked at a time.
	probesAtOnce = 32
	// probeTimeout bounds the check of a watch. Upstream's watch cache sends a bookmark two
	// seconds before the timeout of a watch (cacher.cacheWatcher.nextBookmarkTime).
	probeTimeout = 4 * time.Second
	// behindPatience is the time after which a watch whose client is not up to date, and gets no
	// event, ends with the sleep: the client does not read, or the type has no bookmarks.
	behindPatience = 10 * time.Second
	// openTimeout bounds the time in which a woken control plane continues a watch.
	openTimeout = 10 * time.Second
)

// parkNew parks a new watch from the revision at which the control plane sleeps, if the
// Content-Type of its answer is known from an earlier one. It sends the header.
func (p *plane) parkNew(x *watcher) bool {
	query := x.request.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	media := p.media[mediaKey(x.request)]
	// The control plane checks the credentials when it wakes: until then, few may wait.
	if limit := p.manager.config.Host.Limits.WatchesPerUser; limit > 0 && len(p.watches) >= limit {
		return false
	}
	if p.state != asleep || p.revision == "" || media == "" || query.Get("resourceVersion") != p.revision || x.initial {
		return false
	}
	x.media, x.format, x.upToDate = media, formatOf(media), p.revision
	x.client.Header().Set("Content-Type", media)
	x.client.WriteHeader(http.StatusOK)
	x.flush()
	p.addWatch(x)
	return true
}

// park ends a leg. It reports whether the watch waits for the next one.
func (p *plane) park(x *watcher) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x.active = false
	p.serving.Done()
	if p.state != stopping || p.revision == "" || x.upToDate != p.revision {
		return false
	}
	if p.media == nil {
		p.media = map[string]string{}
	}
	if len(p.media) < maxMedia {
		p.media[mediaKey(x.request)] = x.media
	}
	return true
}

// addWatch adds a watch. p.mu is held.
func (p *plane) addWatch(x *watcher) {
	if p.watches == nil {
		p.watches = map[*watcher]struct{}{}
	}
	p.watches[x] = struct{}{}
}

// leave forgets a watch.
func (p *plane) leave(x *watcher) {
	x.mu.Lock()
	x.left = true
	x.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches, x)
	if len(p.watches) == 0 {
		p.watches = nil
	}
	if x.active { // it ended before its next leg
		x.active = false
		close(x.opened)
		p.serving.Done()
	}
}

// resume continues the parked watches, and returns when the control plane has begun to serve
// them: whatever is written from then on reaches them.
func (p *plane) resume(ctx context.Context) {
	p.mu.Lock()
	handler := p.handler
	var opened []*watcher
	for x := range p.watches {
		x.active, x.opened = true, make(chan struct{})
		p.serving.Add(1)
		x.next <- handler
		opened = append(opened, x)
	}
	p.mu.Unlock()
	timeout := time.NewTimer(openTimeout)
	defer timeout.Stop()
	for _, x := range opened {
		select {
		case <-x.opened:
			continue
		case <-timeout.C:
			timeout.Reset(0)
		case <-ctx.Done():
		}
		x.cancel() // its client asks again
	}
}

// settle returns the revision of the store if every watch has had all events up to it and
// nothing is written at the moment. Watches that cannot tell end with the sleep.
func (p *plane) settle(ctx context.Context) (revision string, quiet bool) {
	p.mu.Lock()
	handler, server := p.handler, p.server
	watchers := slices.Collect(maps.Keys(p.watches))
	p.mu.Unlock()
	if server == nil {
		return "", false
	}
	client, err := newRevisions(server)
	if err == nil {
		revision, err = client.current(ctx)
	}
	if err != nil {
		return "", true // a server that does not answer sleeps without its watches
	}
	if revision != p.advanced && slices.ContainsFunc(watchers, func(x *watcher) bool {
		version, _, _ := x.position()
		return version != "" && less(version, revision)
	}) {
		if advanced, err := client.advance(ctx); err == nil { // else watches without filters have bookmarks
			p.advanced, revision = advanced, advanced
		}
	}
	var behind atomic.Bool
	var probes errgroup.Group
	probes.SetLimit(probesAtOnce)
	for _, x := range watchers {
		probes.Go(func() error {
			if x.probe(ctx, handler, client, revision) {
				x.behind = time.Time{}
				return nil
			}
			if sent := x.sent.Load(); x.behind.IsZero() || sent != x.seen {
				x.behind, x.seen = time.Now(), sent
			}
			if time.Since(x.behind) < behindPatience { // else it ends with the sleep
				behind.Store(true)
			}
			return nil
		})
	}
	_ = probes.Wait() // they return no errors
	if behind.Load() {
		// etcd tells no revision in a stream with a watch that begins after it, as that of an informer that
		// has just listed (mvcc.watchableStore.progressIfSync): the next check writes again.
		p.advanced = ""
		return "", false
	}
	after, err := client.current(ctx)
	return revision, err == nil && after == revision
}

// probe checks with a second watch, from where the client is, that the client has all events up
// to the revision. It returns false if it has not yet. A watch that cannot be checked is not up
// to date, which ends it with the sleep.
func (x *watcher) probe(ctx context.Context, handler http.Handler, client revisions, revision string) bool {
	version, sent, ok := x.position()
	switch {
	case !ok:
		return false
	case version == "" || x.ctx.Err() != nil || !client.serves(ctx, x.request):
		return true
	case !less(version, revision): // upstream sends no bookmark with the revision of the request
		return x.confirm(revision, sent, nil)
	}
	if err := client.refresh(ctx, x.request.URL.Path, revision); err != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(x.ctx, probeTimeout)
	defer cancel()
	request := x.continued(ctx, version, url.Values{"allowWatchBookmarks": {"true"}, "timeoutSeconds": {"3"}})
	answer := &probe{header: http.Header{}, format: x.format, ended: cancel}
	func() {
		defer func() { _ = recover() }() // upstream's handler has logged the panic
		handler.ServeHTTP(answer, request)
	}()
	switch {
	case answer.code != http.StatusOK || answer.kind == watch.Error: // as of a version that was compacted
		return true
	case answer.kind != watch.Bookmark || less(answer.version, revision):
		return false
	}
	return x.confirm(revision, sent, answer.event)
}

// less compares resourceVersions of one store.
func less(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order < 0
}

// probe is the response to a watch of which only the first event is of interest.
type probe struct {
	header  http.Header
	code    int
	format  format
	pending []byte
	event   []byte
	kind    watch.EventType
	version string
	ended   func()
}

// Header implements [http.ResponseWriter].
func (p *probe) Header() http.Header { return p.header }

// WriteHeader implements [http.ResponseWriter].
func (p *probe) WriteHeader(code int) {
	if p.code == 0 {
		p.code = code
	}
}

// Write implements [http.ResponseWriter].
func (p *probe) Write(data []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.event != nil || p.code != http.StatusOK {
		return len(data), nil
	}
	p.pending = append(p.pending, data...)
	event, _ := p.format.next(p.pending)
	if event == nil {
		return len(data), nil
	}
	var err error
	if p.kind, p.version, err = p.format.read(event); err != nil {
		return 0, err
	}
	p.event = event
	p.ended()
	return len(data), nil
}

// Flush implements [http.Flusher].
func (p *probe) Flush() { p.WriteHeader(http.StatusOK) }

// CloseNotify implements http.CloseNotifier, which upstream's wrappers of responses ask for.
func (p *probe) CloseNotify() <-chan bool { return make(chan bool) }

// revisions reads revisions of a control plane, as resourceVersions.
type revisions struct{ client rest.Interface }

func newRevisions(server *controlplane.ControlPlane) (revisions, error) {
	client, err := discovery.NewDiscoveryClientForConfig(server.RESTConfig())
	if err != nil {
		return revisions{}, fmt.Errorf("make the client that reads the revision: %w", err)
	}
	return revisions{client.RESTClient()}, nil
}

// current returns the revision of the store.
func (r revisions) current(ctx context.Context) (string, error) {
	return r.list(ctx, "/api/v1/namespaces", nil)
}

// serves reports whether the control plane itself serves the resource of the request: an aggregated
// API server has resourceVersions of its own.
func (r revisions) serves(ctx context.Context, request *http.Request) bool {
	info, err := infos.NewRequestInfo(request)
	if err != nil || info.APIGroup == "" || info.APIGroup == apiregistrationv1.GroupName { // it has no APIService
		return err == nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	data, err := r.client.Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices", info.APIVersion+"."+info.APIGroup).
		DoRaw(ctx)
	var service apiregistrationv1.APIService
	return err == nil && json.Unmarshal(data, &service) == nil && service.Spec.Service == nil
}

// advance writes, so that the revision, which it returns, is later than the last event of each watch.
// Upstream's watch cache has no bookmark for a watch that has filtered the event of that revision
// (cacher.cacheWatcher.process).
func (r revisions) advance(ctx context.Context) (string, error) {
	const path, name = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "kube-hyper-mini-sleep"
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}}}
	lease.APIVersion, lease.Kind, lease.Name = coordinationv1.SchemeGroupVersion.String(), "Lease", name
	body, err := json.Marshal(lease)
	if err != nil {
		return "", fmt.Errorf("write the lease of a sleep: %w", err)
	}
	data, err := r.client.Patch(types.MergePatchType).AbsPath(path, name).Body(body).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		data, err = r.client.Post().AbsPath(path).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).DoRaw(ctx)
	}
	if err == nil {
		err = json.Unmarshal(data, lease)
	}
	if err != nil {
		return "", fmt.Errorf("write the lease of a sleep: %w", err)
	}
	return lease.ResourceVersion, nil
}

// refresh waits until the watch cache of the resource at the path has the revision.
func (r revisions) refresh(ctx context.Context, path, revision string) error {
	_, err := r.list(ctx, path, url.Values{"resourceVersion": {revision}, "resourceVersionMatch": {"NotOlderThan"}})
	return err
}

// list lists no object, and returns the resourceVersion of the list.
func (r revisions) list(ctx context.Context, path string, query url.Values) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request := r.client.Get().AbsPath(path).Param("fieldSelector", "metadata.name=none.kube-hyper-mini.io")
	for name, values := range query {
		request = request.Param(name, values[0])
	}
	data, err := request.DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read the revision: %w", err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(data, &list); err != nil {
		return "", fmt.Errorf("read the revision: %w", err)
	}
	return list.ResourceVersion, nil
}
