package storage

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Parts of the quota: the sizes of all objects are read when the database has a
// quotaWatched of the quota; its size is checked when a quotaStep more was written.
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

// check returns an error if the namespace of the key may not have the value. Above the
// quota objects may only become smaller; above 5/4 of it, they may not change at all until
// old versions were compacted.
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
	used, before, known := p.namespaceSize(namespace, key)
	after := int64(len(key) + size)
	if !known || used+after-before <= q.bytes || after <= before && used <= q.bytes*5/4 {
		return nil
	}
	if requester, ok := request.UserFrom(ctx); ok && slices.Contains(requester.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	quantity := func(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes>>20<<20, resource.BinarySI) }
	return apierrors.NewForbidden(named, name, fmt.Errorf("exceeded quota: the objects of namespace %s take %s of "+
		"the database with their versions of the last minutes, "+
		"of at most %s (limits.namespacePercent of the server's configuration): delete objects, wait some minutes for "+
		"old versions to go, or raise the limit",
		namespace, quantity(used), quantity(q.bytes)))
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

// namespaceSize returns the size of the namespace with old versions, and that of the key,
// if all sizes are known.
func (p *Population) namespaceSize(namespace, key string) (used, before int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sizes.read[everything] {
		return 0, 0, false
	}
	if total := p.sizes.totals[sizeKey{everything, namespace}]; total != nil {
		used = total.Bytes
	}
	before = int64(p.sizes.objects[maphash.String(p.sizes.seed, key)])
	return used + p.sizes.old.before[namespace] + p.sizes.old.since[namespace], before, true
}
