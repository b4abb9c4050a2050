package apiserver

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestWatchLimit: watches of a user above the limit get 429, those of others do not.
func TestWatchLimit(t *testing.T) {
	t.Parallel()
	opened, end := make(chan struct{}), make(chan struct{})
	h := newTestLimits(config.Limits{WatchesPerUser: 2}).watches(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened <- struct{}{}
		<-end
	}))
	const watch = "/api/v1/namespaces/a/secrets?watch=1&resourceVersion=7"
	var watches sync.WaitGroup
	open := func(user string) {
		t.Helper()
		answered := make(chan int, 1)
		watches.Go(func() { answered <- ask(t, asUser(t.Context(), user), h, watch).Code })
		select {
		case <-opened:
		case status := <-answered:
			t.Errorf("the watch of %s is answered with %d", user, status)
		}
	}
	expectRefused := func(user string) {
		t.Helper()
		w := ask(t, asUser(t.Context(), user), h, watch)
		if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "limits.watchesPerUser") || w.Header().Get("Retry-After") == "" {
			t.Errorf("the watch of %s is answered with %d: %s", user, w.Code, w.Body)
		}
	}
	open("mallory")
	open("mallory")
	expectRefused("mallory")
	open("system:serviceaccount:team:a")
	open("system:serviceaccount:team:b")
	expectRefused("system:serviceaccount:team:c")
	for _, user := range []string{"alice", administrator, administrator, administrator, controllerUsers[0], controllerUsers[0], controllerUsers[0]} {
		open(user)
	}
	close(end)
	watches.Wait()
	end, opened = make(chan struct{}), make(chan struct{}, 9)
	close(end)
	if w := ask(t, asUser(t.Context(), "mallory"), h, watch); w.Code != http.StatusOK {
		t.Errorf("after the end of the others: %d", w.Code)
	}
}
