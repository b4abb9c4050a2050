package storage

import (
	"context"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// firstPage is the number of objects of the first page. Their size determines the number
	// of objects of the next one.
	firstPage = 20
	// cachePage and clientPage are the sizes of pages, in bytes, of what reads for all clients,
	// as a watch cache does, and of what reads for one client among many.
	cachePage, clientPage = 8 << 20, 2 << 20
	// maxSizesPage is the number of objects that readSizes reads at a time at most: those of the
	// next type may be far larger.
	maxSizesPage = 100
)

// pagedKV bounds pages by bytes: watch caches and watches ask for 10,000 objects, which may
// have gigabytes. A response with fewer objects than its limit says whether there are more.
type pagedKV struct {
	clientv3.KV
	page int64        // the size of a page, in bytes
	size atomic.Int64 // of an object of the last page, in bytes; 0 before the first
}

// firstCount is the key in the context of a list for the number of objects from its first page on.
type firstCount struct{}

// withRemaining is a store whose lists count the remaining objects right: upstream (etcd3.store.GetList)
// subtracts the limit from the count of the last page, which [pagedKV] makes smaller than the list.
type withRemaining struct{ storage.Interface }

// GetList implements [storage.Interface].
func (s withRemaining) GetList(ctx context.Context, key string,
	options storage.ListOptions, list runtime.Object) error {
	first := int64(-1)
	if err := s.Interface.GetList(context.WithValue(ctx, firstCount{}, &first), key, options, list); err != nil {
		return err
	}
	read, err := meta.ListAccessor(list)
	if err == nil && read.GetRemainingItemCount() != nil && first >= 0 {
		remaining := first - options.Predicate.Limit
		read.SetRemainingItemCount(&remaining)
	}
	return err
}

// Get implements [clientv3.KV].
func (p *pagedKV) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	op := clientv3.OpGet(key, options...)
	if op.Limit() <= 1 || op.IsCountOnly() || op.IsKeysOnly() {
		return p.KV.Get(ctx, key, options...)
	}
	limit := int64(firstPage)
	if size := p.size.Load(); size > 0 {
		limit = max(p.page/size, 1)
	}
	response, err := p.KV.Get(ctx, key, append(options, clientv3.WithLimit(min(limit, op.Limit())))...)
	if first, ok := ctx.Value(firstCount{}).(*int64); ok && err == nil && *first < 0 {
		*first = response.Count
	}
	if err == nil && len(response.Kvs) > 0 {
		size := 0
		for _, stored := range response.Kvs {
			size += len(stored.Value)
		}
		p.size.Store(max(int64(size/len(response.Kvs)), 1))
	}
	return response, err
}
