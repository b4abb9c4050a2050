package storage

import (
	"context"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// sizedObjects is a KV whose objects have all the same size. It records the limits.
type sizedObjects struct {
	clientv3.KV
	size   int
	limits []int64
}

func (s *sizedObjects) Get(_ context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	limit := clientv3.OpGet(key, options...).Limit()
	s.limits = append(s.limits, limit)
	value := make([]byte, s.size)
	response := &clientv3.GetResponse{}
	for range limit {
		response.Kvs = append(response.Kvs, &mvccpb.KeyValue{Value: value})
	}
	return response, nil
}

// TestPagesAreBounded: a page has few objects if they are large, and what reads without a
// limit gets all.
func TestPagesAreBounded(t *testing.T) {
	for _, test := range []struct {
		size        int
		limit, want int64
	}{{100, 10_000, 10_000}, {10 << 10, 10_000, 819}, {1 << 20, 10_000, 8}, {9 << 20, 10_000, 1}, {1 << 20, 5, 5}, {1 << 20, 0, 0}} {
		objects := &sizedObjects{size: test.size}
		pages := &pagedKV{KV: objects, page: cachePage}
		for range 2 {
			if _, err := pages.Get(t.Context(), "/registry/", clientv3.WithLimit(test.limit)); err != nil {
				t.Fatal(err)
			}
		}
		if first, got := objects.limits[0], objects.limits[1]; first > firstPage || got != test.want {
			t.Errorf("objects of %d bytes, %d of them: pages of %d and %d, want %d", test.size, test.limit, first, got, test.want)
		}
	}
}
