package planes

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestParkedCredentials: a watch with a token or with an impersonation goes on after a sleep, as the
// same user.
func TestParkedCredentials(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	own := newClient(t, h.config)
	acme := h.create(t, "acme", nil)
	awaitFirstWrites(t, acme)
	account := func(namespace string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}
	}
	jane := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}
	impersonates := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"jane"}}
	grant(t, acme, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}, account("default"), jane)
	grant(t, acme, impersonates, account("kube-public"))
	grant(t, own, rbacv1.PolicyRule{APIGroups: []string{Resource.Group}, Resources: []string{"controlplanes/admin"}, Verbs: []string{"update"}}, account("default"))
	impersonator := tokenIn(t, acme, "kube-public")
	for who, credentials := range map[string]func(*rest.Config){
		"a token of acme":     token(t, acme),
		"a token of the host": token(t, own),
		"an impersonation":    func(c *rest.Config) { impersonator(c); c.Impersonate.UserName = "jane" },
	} {
		maps := h.with(t, "acme", credentials).CoreV1().ConfigMaps("default")
		outlives := func() bool {
			var opened watch.Interface
			eventually(t, who+" may watch", func() bool {
				list, err := maps.List(t.Context(), metav1.ListOptions{})
				if err == nil {
					opened, err = maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
				}
				return err == nil
			})
			defer opened.Stop()
			h.sleepNow(t, "acme")
			written := addAnother(t, acme)
			event, ok := <-opened.ResultChan()
			return ok && event.Type == watch.Added && event.Object.(metav1.Object).GetUID() == written.UID
		}
		// A server that writes while it stops does not park: see TestParkedTypes.
		if !slices.ContainsFunc([]int{1, 2, 3}, func(int) bool { return outlives() }) {
			t.Errorf("the watch with %s does not go on", who)
		}
	}
}

// TestParkedFilters: one check before a sleep is enough for watches that have filtered the newest event.
func TestParkedFilters(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := h.create(t, "acme", nil)
	awaitFirstWrites(t, client)
	for namespace, selector := range map[string]string{"": "test=no", "kube-public": ""} {
		maps := client.CoreV1().ConfigMaps(namespace)
		list, err := maps.List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		watchMaps(t, maps, metav1.ListOptions{LabelSelector: selector, ResourceVersion: list.ResourceVersion})
	}
	p := h.known(t, "acme")
	eventually(t, "a check after a write is the last one", func() bool { // others may write meanwhile
		addAnother(t, client)
		revision, quiet := p.settle(t.Context())
		upToDate := 0
		for x := range p.watches {
			if x.upToDate == revision {
				upToDate++
			}
		}
		return quiet && upToDate == 2
	})
}

// TestRoomOfParked: one that is always in use, with a watch that has filtered the newest event, makes
// room for another one.
func TestRoomOfParked(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(c *config.ServerConfiguration) { c.Planes.MaxAwake = 1 })
	maps := h.create(t, "acme", nil).CoreV1().ConfigMaps("default")
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watchMaps(t, maps, metav1.ListOptions{LabelSelector: "test=no", ResourceVersion: list.ResourceVersion})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	p := h.known(t, "acme")
	go wait.UntilWithContext(ctx, func(context.Context) { // more requests than the machine can serve
		p.mu.Lock()
		p.lastUsed = time.Now()
		p.mu.Unlock()
	}, time.Millisecond)
	used := make(chan error, 1)
	go func() {
		generated := configMap("")
		generated.GenerateName = "one-"
		for ctx.Err() == nil {
			if _, err := maps.Create(t.Context(), generated, metav1.CreateOptions{}); err != nil {
				used <- err
				return
			}
		}
		used <- nil
	}()
	if _, err := h.create(t, "beta", nil).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-used; err != nil {
		t.Errorf("a request meanwhile: %v", err)
	}
}

// slowClient lets each write of events begin, and end, when the test says so.
type slowClient struct {
	*httptest.ResponseRecorder
	begun, ended chan struct{}
}

// Write implements [http.ResponseWriter].
func (c slowClient) Write(data []byte) (int, error) {
	c.begun <- struct{}{}
	<-c.ended
	return len(data), nil
}

// TestSlowClient: a watch whose client takes the initial events slowly keeps a control plane awake, and
// one whose client takes none does not.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	acme := h.create(t, "acme", nil)
	awaitFirstWrites(t, acme)
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}
	grant(t, acme, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}, account)
	config := &rest.Config{}
	token(t, acme)(config)
	eventually(t, "it may watch", func() bool {
		_, err := h.with(t, "acme", func(c *rest.Config) { c.BearerToken = config.BearerToken }).CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	const path = prefix + "acme/api/v1/configmaps?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	ctx, stop := context.WithCancel(t.Context())
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	request.Header.Set("Authorization", "Bearer "+config.BearerToken)
	client := slowClient{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		h.serve(client, request)
	}()
	p := h.known(t, "acme")
	settles := func() bool {
		for x := range p.watches {
			if !x.behind.IsZero() {
				x.behind = time.Now().Add(-time.Hour)
			}
		}
		_, quiet := p.settle(t.Context())
		return quiet
	}
	for range 3 { // of at least five, of the namespaces
		<-client.begun
		if settles() {
			t.Error("the watch ends with the sleep while its client takes events")
		}
		client.ended <- struct{}{}
	}
	<-client.begun
	eventually(t, "it falls asleep while the client takes none", settles)
	stop()
	for {
		select {
		case <-client.begun:
		case client.ended <- struct{}{}:
		case <-served:
			return
		}
	}
}

// TestInitialEvents: they come in an order that is not that of their revisions, so that the last one says
// nothing about those that follow.
func TestInitialEvents(t *testing.T) {
	x := &watcher{client: httptest.NewRecorder(), request: httptest.NewRequest(http.MethodGet, "/", nil),
		format: jsonEvents{}, initial: true}
	for _, event := range []struct {
		text, version string
		known         bool
	}{
		{`{"type":"ADDED","object":{"metadata":{"resourceVersion":"9"}}}`, "", false},
		{`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}`, "10", true},
		{`{"type":"ADDED","object":{"metadata":{"resourceVersion":"11"}}}`, "11", true},
	} {
		if err := x.send([]byte(event.text + "\n")); err != nil {
			t.Fatal(err)
		}
		if version, _, known := x.position(); version != event.version || known != event.known {
			t.Errorf("after %s the client is at %q, known: %t", event.text, version, known)
		}
	}
}

// TestParkNew: a new watch from the revision at which a control plane sleeps is parked, unless it asks for
// initial events, in whichever spelling upstream takes for true.
func TestParkNew(t *testing.T) {
	for query, parked := range map[string]bool{"": true, "&sendInitialEvents=false": true, "&sendInitialEvents=true": false, "&sendInitialEvents=1": false} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/configmaps?watch=true&resourceVersion=5"+query, nil)
		p := &plane{state: asleep, revision: "5", media: map[string]string{mediaKey(r): "application/json"}}
		p.manager = &Manager{config: Config{Host: config.Default()}}
		ctx, end := context.WithCancel(t.Context())
		end() // a parked one ends at once
		w := httptest.NewRecorder()
		err := p.serveWatch(w, r.WithContext(ctx), func() bool { return false })
		if (err == nil) != parked || (w.Header().Get("Content-Type") != "") != parked {
			t.Errorf("%q: parked: %t, want %t", query, err == nil, parked)
		}
	}
}
