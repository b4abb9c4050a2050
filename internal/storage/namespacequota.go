package storage

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// namespaceQuota bounds what the objects of one namespace take of the database, with their
// old versions, so that one namespace does not fill it for all. kube-system is exempt: the
// leases of the server are there.
type namespaceQuota struct {
	bytes   int64 // 0 for no bound
	storage *Storage
	written atomic.Int64 // bytes since the size of the database was checked
	checks  atomic.Bool  // whether the size of the database is being checked
}

// The sizes of all objects are read once the database has 1/quotaWatched of the quota. The size
// of the database is checked after each 1/quotaStep of the quota that is written.
const quotaWatched, quotaStep = 2, 16

// guard returns a KV that refuses the puts above the quota.
func (q *namespaceQuota) guard(kv clientv3.KV) clientv3.KV {
	if q.bytes == 0 {
		return kv
	}
	q.written.Store(q.bytes) // the first write checks
	return store.GuardTransactions(kv, func(ctx context.Context, puts []clientv3.Op) (func(), error) {
		for _, put := range puts {
			if err := q.check(ctx, string(put.KeyBytes()), len(put.ValueBytes())); err != nil {
				return nil, err
			}
		}
		return func() {}, nil
	}, func(err error) error { return err })
}

// maxMark bounds what a deletion adds to an object with finalizers, in bytes: the update stores
// its time, and maybe a finalizer.
const maxMark = 1 << 10

// check returns an error if the namespace of the key may not have the value. Above the quota,
// updates that add maxMark at most are possible until objects and old versions have 5/4 of it.
// Deletions and updates that add nothing are also possible until the old versions have a quarter
// of it: the objects alone may be above a quota that was lowered. Both bounds end repeated updates
// until the old versions are compacted. They do not hold for the accounts of kube-system, which
// can fill the database there: the controllers complete deletions with such updates.
func (q *namespaceQuota) check(ctx context.Context, key string, size int) error {
	p := q.storage.population
	if q.written.Add(int64(size)) >= q.bytes/quotaStep && q.checks.CompareAndSwap(false, true) {
		q.written.Store(0)
		q.storage.run(q.measure)
	}
	key = key[min(len(p.root()), len(key)):]
	named, namespace, name := store.SplitKey(key)
	if namespace == "" || namespace == metav1.NamespaceSystem {
		return nil
	}
	live, old, before, known := p.namespaceSize(namespace, key)
	growth, limit := int64(len(key)+size)-before, q.bytes
	small := before > 0 && growth <= maxMark
	info, found := request.RequestInfoFrom(ctx)
	switch {
	case small && (growth <= 0 || found && strings.HasPrefix(info.Verb, "delete")):
		limit = max(limit, live) + q.bytes/4
	case small:
		limit += q.bytes / 4
	}
	if !known || live+old+growth <= limit {
		return nil
	}
	requester, found := request.UserFrom(ctx)
	if found && slices.ContainsFunc(requester.GetGroups(), func(group string) bool {
		return group == user.SystemPrivilegedGroup ||
			small && group == serviceaccount.MakeNamespaceGroupName(metav1.NamespaceSystem)
	}) {
		return nil
	}
	quantity := func(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes>>20<<20, resource.BinarySI) }
	return apierrors.NewForbidden(named, name, fmt.Errorf("exceeded quota: the objects of namespace %s take %s of "+
		"the database with their versions of the last minutes, "+
		"of at most %s (limits.namespacePercent of the server's configuration): delete objects, wait some minutes for "+
		"old versions to go and repeat a deletion that got this error, or raise the limit",
		namespace, quantity(live+old), quantity(q.bytes)))
}

// measure reads the sizes of all objects once the database is so large that one namespace
// may be near its quota.
func (q *namespaceQuota) measure(ctx context.Context) {
	defer q.checks.Store(false)
	status, err := q.storage.connection.Status(ctx)
	if err != nil || status.DbSizeInUse < q.bytes/quotaWatched {
		return // the next writes check again
	}
	if _, err := q.storage.population.size(ctx, everything, ""); err != nil {
		q.storage.population.log.Debug("cannot read the sizes of all objects", "error", err)
	}
}

// namespaceSize returns the sizes of the namespace's objects, of their old versions, and of the
// key, if all sizes are known.
func (p *Population) namespaceSize(namespace, key string) (live, old, before int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sizes.read[everything] {
		return 0, 0, 0, false
	}
	if total := p.sizes.totals[sizeKey{everything, namespace}]; total != nil {
		live = total.Bytes
	}
	before = int64(p.sizes.objects[maphash.String(p.sizes.seed, key)])
	return live, p.sizes.old.before[namespace] + p.sizes.old.since[namespace], before, true
}
