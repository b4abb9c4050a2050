package storage

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// expectSize compares the size of the widgets in a namespace as of the revision.
func expectSize(t *testing.T, p *Population, revision int64, namespace string, want Size) {
	t.Helper()
	reach(t, p, revision)
	got, err := p.Size(t.Context(), widgets, namespace)
	if err != nil || got != want {
		t.Errorf("at revision %d namespace %q has %+v, want %+v: %v", revision, namespace, got, want, err)
	}
}

func TestSizes(t *testing.T) {
	p, client := newPopulation(t)
	const a, b, prefix = "/registry/example.com/widgets/one/a", "/registry/example.com/widgets/two/b", "/registry/"
	put(t, client, a, a, "/registry/example.com/gadgets/one/a")
	revision := put(t, client, b)
	size := int64(len(a) - len(prefix) + 1)
	expectSize(t, p, revision, "", Size{2, 2 * size})
	expectSize(t, p, revision, "one", Size{1, size})
	expectSize(t, p, revision, "none", Size{})
	if _, err := client.Put(t.Context(), a, "xxx"); err != nil {
		t.Fatal(err)
	}
	revision = put(t, client, b)
	expectSize(t, p, revision, "one", Size{1, size + 2})
	expectSize(t, p, revision, "", Size{2, 2*size + 2})
	revision = remove(t, client, a)
	expectSize(t, p, revision, "one", Size{})
	expectSize(t, p, revision, "", Size{1, size})
}

// TestSizesOfManyPages: all pages are read.
func TestSizesOfManyPages(t *testing.T) {
	p, client := newPopulation(t)
	want := Size{Objects: 3 * firstPage}
	for i := range want.Objects {
		key := fmt.Sprintf("/registry/example.com/widgets/one/%03d", i)
		put(t, client, key)
		want.Bytes += int64(len(key) - len("/registry/") + 1)
	}
	expectSize(t, p, 0, "one", want)
}

// TestNamespaceQuota: a namespace above its quota cannot grow, neither by new versions of
// one object, and others can.
func TestNamespaceQuota(t *testing.T) {
	s, client := newStorage(t)
	s.quota.bytes = 1 << 20
	kv := s.quota.guard(client.KV)
	write := func(ctx context.Context, name string, size int) error {
		t.Helper()
		response, err := kv.Txn(ctx).Then(clientv3.OpPut("/registry/example.com/widgets/"+name, strings.Repeat("x", size))).Commit()
		if err != nil {
			return err
		}
		return s.population.Reach(t.Context(), response.Header.Revision)
	}
	if _, err := s.population.size(t.Context(), everything, ""); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := write(t.Context(), fmt.Sprint("full/", i), 200<<10); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error) bool {
		return apierrors.ReasonForError(err) == "Forbidden" && strings.Contains(err.Error(), "exceeded quota: the objects of namespace full") && strings.Contains(err.Error(), "limits.namespacePercent")
	}
	if err := write(t.Context(), "full/5", 400<<10); !refused(err) {
		t.Errorf("a creation above the quota: %v", err)
	}
	masters := request.WithUser(t.Context(), &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}})
	for name, err := range map[string]error{
		"a smaller version": write(t.Context(), "full/0", 199<<10), // the old one remains: the quota is reached
		"another namespace": write(t.Context(), "free/0", 400<<10),
		"kube-system":       write(t.Context(), "kube-system/0", 2<<20/2),
		"an administrator":  write(masters, "full/6", 400<<10),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var err error
	for size := 198; err == nil && size > 0; size-- {
		err = write(t.Context(), "full/0", size<<10)
	}
	if !refused(err) {
		t.Errorf("ever smaller versions of one object: %v", err)
	}
	if _, err := kv.Txn(t.Context()).Then(clientv3.OpDelete("/registry/example.com/widgets/full/0")).Commit(); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	if status, ok := write(t.Context(), "full/7", 400<<10).(apierrors.APIStatus); !ok || status.Status().Code != http.StatusForbidden {
		t.Error("a creation is not refused after a deletion whose versions are not compacted")
	}
}

// TestDeletionAboveNamespaceQuota: a deletion of an object with finalizers is an update that makes
// it a little larger. It is possible above the quota, and the controllers complete it; repeated
// updates are no way around the quota.
func TestDeletionAboveNamespaceQuota(t *testing.T) {
	const user, deletion, controller, mark = "user", "deletion", "controller", 200
	type write struct {
		by     string
		before int // the size of the object; 0 creates it
		growth int
	}
	allowed, refused := true, false
	for name, c := range map[string]struct {
		quota  int64 // of objects of 1280 KiB
		oldKiB int
		writes map[write]bool
	}{
		"objects and old versions above it": {1400 << 10, 256, map[write]bool{
			{user, 500, mark}: allowed, {user, 500, 2 << 10}: refused, {user, 0, 500}: refused, {user, 500, 0}: allowed,
			{deletion, 500, mark}: allowed, {controller, 500, mark}: allowed, {controller, 0, 500}: refused,
		}},
		"old versions above 5/4": {1100 << 10, 512, map[write]bool{
			{user, 500, mark}: refused, {user, 500, 0}: refused, {deletion, 500, mark}: refused,
			{controller, 500, mark}: allowed, {controller, 500, 2 << 10}: refused, {controller, 0, 500}: refused,
		}},
		"objects above 5/4 after it was lowered": {600 << 10, 0, map[write]bool{
			{user, 500, mark}: refused, {user, 500, 0}: allowed, {user, 500, -100}: allowed, {user, 0, 500}: refused,
			{deletion, 500, mark}: allowed, {deletion, 500, 2 << 10}: refused, {controller, 500, mark}: allowed,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := newStorage(t)
			s.quota.bytes = c.quota
			fill := func(name string, size int) {
				t.Helper()
				response, err := client.Put(t.Context(), "/registry/example.com/widgets/full/"+name, strings.Repeat("x", size))
				if err == nil {
					err = s.population.Reach(t.Context(), response.Header.Revision)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.population.size(t.Context(), everything, ""); err != nil {
				t.Fatal(err)
			}
			fill("rest", (1280-256)<<10)
			fill("rewritten", 256<<10)
			for range c.oldKiB / 256 {
				fill("rewritten", 256<<10)
			}
			contexts := map[string]context.Context{
				user:       t.Context(),
				deletion:   request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: "deletecollection"}),
				controller: request.WithUser(t.Context(), serviceaccount.UserInfo("kube-system", "namespace-controller", "")),
			}
			for w, want := range c.writes {
				name := strings.NewReplacer("{", "", "}", "", " ", "-").Replace(fmt.Sprint(w))
				if w.before > 0 {
					fill(name, w.before)
				}
				put := clientv3.OpPut("/registry/example.com/widgets/full/"+name, strings.Repeat("x", w.before+w.growth))
				_, err := s.quota.guard(client.KV).Txn(contexts[w.by]).Then(put).Commit()
				if err == nil != want || err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("%+v: %v, want that it is allowed: %t", w, err, want)
				}
			}
		})
	}
}

// TestNamespaceQuotaBegins: the sizes are read when the database has half of a quota.
func TestNamespaceQuotaBegins(t *testing.T) {
	s, client := newStorage(t)
	s.quota.bytes = 1 << 20
	kv := s.quota.guard(client.KV)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var err error
	for i := 0; err == nil; i++ {
		_, err = kv.Txn(ctx).Then(clientv3.OpPut(fmt.Sprint("/registry/example.com/widgets/full/", i%9), strings.Repeat("x", 40<<10+i))).Commit()
	}
	if !apierrors.IsForbidden(err) {
		t.Errorf("many versions of nine objects were written: %v", err)
	}
}
