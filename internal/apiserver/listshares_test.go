package apiserver

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	administrator   = "admin"
	operatorAccount = "system:serviceaccount:kube-system:operator"
)

// controllerUsers are users of the server's controllers and informers.
var controllerUsers = []string{
	user.KubeControllerManager, user.APIServerUser,
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:token-cleaner",
}

// asUser returns the context of a request of the user. The administrator and servers are in system:masters;
// controllers are not impersonated.
func asUser(ctx context.Context, name string) context.Context {
	requester := &user.DefaultInfo{Name: name}
	if name == administrator || name == user.APIServerUser {
		requester.Groups = []string{user.SystemPrivilegedGroup}
	}
	if slices.Contains(controllerUsers, name) {
		ctx = context.WithValue(ctx, ofControllers{}, new(true))
	}
	return request.WithUser(ctx, requester)
}

// expectListed lists 20,000 objects as the user, and returns after which time they were
// served.
func expectListed(t *testing.T, g *limits, name string) time.Duration {
	t.Helper()
	began := time.Now()
	h := g.lists(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	if w := ask(t, asUser(t.Context(), name), h, "/api/v1/secrets"); w.Code != http.StatusAccepted {
		t.Errorf("the list of %s is answered with %d", name, w.Code)
	}
	return time.Since(began)
}

// listUnread has each of the users request lists of 20,000 objects, one after the other,
// and read none of them, until the test ends.
func listUnread(t *testing.T, g *limits, names ...string) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	h := unread(g.lists(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) })))
	var clients sync.WaitGroup
	for _, name := range names {
		clients.Go(func() {
			for ctx.Err() == nil {
				ask(t, asUser(ctx, name), h, "/api/v1/secrets")
			}
		})
	}
	synctest.Wait()
	return func() {
		cancel()
		clients.Wait()
	}
}

// TestUnreadListsDelayNoOtherUsers: lists that their user does not read delay further
// lists of that user, or of the service accounts of that namespace, only.
func TestUnreadListsDelayNoOtherUsers(t *testing.T) {
	users := []string{"alice", "system:serviceaccount:other:a"}
	for name, test := range map[string]struct{ unread, others []string }{
		"one user": {
			[]string{"mallory", "mallory", "mallory", "mallory"}, slices.Concat(users, controllerUsers, []string{administrator, operatorAccount}),
		},
		"service accounts of one namespace": {
			[]string{"system:serviceaccount:team:a", "system:serviceaccount:team:b", "system:serviceaccount:team:c"},
			slices.Concat(users, controllerUsers, []string{administrator, operatorAccount}),
		},
		"service accounts of operators in kube-system": {
			[]string{operatorAccount, operatorAccount, "system:serviceaccount:kube-system:other", "system:serviceaccount:kube-system:other"},
			slices.Concat(users, controllerUsers, []string{administrator}),
		},
		"administrators": {
			[]string{administrator, administrator, administrator}, slices.Concat(users, controllerUsers, []string{operatorAccount}),
		},
		"controllers": {
			slices.Concat(controllerUsers, controllerUsers), slices.Concat(users, []string{administrator, operatorAccount}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestGate()
				end := listUnread(t, g, test.unread...)
				for _, other := range test.others {
					if waited := expectListed(t, g, other); waited > 0 {
						t.Errorf("the list of %s has waited for %v", other, waited)
					}
				}
				end()
				if len(g.taken.used) > 0 {
					t.Errorf("the budgets of %d requesters without lists are kept", len(g.taken.used))
				}
			})
		})
	}
}

// TestUnreadListsOfManyUsers: together they take all that others have. Others are served
// when those lists do not count any more, before further lists of them; the controllers of
// servers do not wait.
func TestUnreadListsOfManyUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		var users []string
		for i := range 16 {
			users = append(users, "user-"+strconv.Itoa(i%8))
		}
		end := listUnread(t, g, users...)
		for _, name := range controllerUsers {
			if waited := expectListed(t, g, name); waited > 0 {
				t.Errorf("the list of %s has waited for %v", name, waited)
			}
		}
		for range 5 {
			time.Sleep(time.Second) // lists of another user come at other moments than theirs
			expectListed(t, g, "alice")
		}
		end()
	})
}

// TestListsAboveTheBound: one of more objects than all lists together may have delays other
// lists of its user only.
func TestListsAboveTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		served := make(chan string, 3)
		h := unread(g.lists(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requester, _ := request.UserFrom(r.Context())
			served <- requester.GetName()
			_, _ = w.Write([]byte("x"))
		})))
		var clients sync.WaitGroup
		for _, name := range []string{"alice", "alice", "bob"} {
			clients.Go(func() { ask(t, asUser(t.Context(), name), h, "/api/v1/events") })
			synctest.Wait()
		}
		if first, second := <-served, <-served; first != "alice" || second != "bob" || len(served) > 0 {
			t.Errorf("lists of %s and %s are served, and %d with them", first, second, len(served))
		}
		time.Sleep(maxClientWait)
		synctest.Wait()
		if len(served) != 1 {
			t.Error("the second list of alice is not served after the first does not count any more")
		}
		clients.Wait()
	})
}
