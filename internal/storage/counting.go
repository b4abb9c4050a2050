package storage

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

const (
	// parallelCounts bounds the number of concurrent requests of countEach.
	parallelCounts = 16
	// countTimeout bounds the requests of count: other callers wait for them.
	countTimeout = 10 * time.Second
)

// lockCounted waits for the watch, counts the objects below the prefixes that have not been
// counted, and locks mu. After an error mu is not locked.
func (p *Population) lockCounted(ctx context.Context, prefixes []string) error {
	if err := p.awaitWatch(ctx); err != nil {
		return err
	}
	for {
		p.mu.Lock()
		if len(p.uncountedLocked(prefixes)) == 0 {
			return nil
		}
		p.mu.Unlock()
		if err := p.countAll(ctx, prefixes); err != nil {
			return err
		}
	}
}

// countAll counts the objects below the prefixes that have not been counted, unless the
// watch begins anew meanwhile. One caller counts at a time: what it has counted, the next
// one need not count.
func (p *Population) countAll(ctx context.Context, prefixes []string) error {
	select {
	case p.counting <- struct{}{}:
		defer func() { <-p.counting }()
	case <-ctx.Done():
		return fmt.Errorf("wait until other types are counted in etcd: %w", context.Cause(ctx))
	}
	// The revision to count at must not have been compacted.
	revision, err := p.Revision(ctx)
	if err != nil {
		return err
	}
	if err := p.Reach(ctx, revision); err != nil {
		return err
	}
	p.mu.Lock()
	uncounted := p.uncountedLocked(prefixes)
	p.mu.Unlock()
	return p.count(ctx, uncounted)
}

func (p *Population) uncountedLocked(prefixes []string) []string {
	var uncounted []string
	for _, prefix := range prefixes {
		if !p.counted[prefix] {
			uncounted = append(uncounted, prefix)
		}
	}
	return uncounted
}

// count counts with requests to etcd, which counts keys in its index without reading
// values, at the revision that the watch has reached, and adds the changes that the watch
// reports meanwhile. The prefixes have not been counted.
func (p *Population) count(ctx context.Context, prefixes []string) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	p.mu.Lock()
	beginning, revision, before := p.beginnings, p.revision, make([]int64, len(prefixes))
	for i, prefix := range prefixes {
		before[i] = p.counts[prefix]
	}
	p.mu.Unlock()
	counts, err := p.countEach(ctx, prefixes, revision)
	if err != nil {
		return fmt.Errorf("count the objects in etcd: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beginnings != beginning {
		return nil // etcd may have another history now
	}
	for i, prefix := range prefixes {
		p.counts[prefix] += counts[i] - before[i]
		p.counted[prefix] = true
	}
	return nil
}

// countEach counts with one request for each prefix.
func (p *Population) countEach(ctx context.Context, prefixes []string, revision int64) ([]int64, error) {
	counts := make([]int64, len(prefixes))
	requests, ctx := errgroup.WithContext(ctx)
	requests.SetLimit(parallelCounts)
	for i, prefix := range prefixes {
		requests.Go(func() error {
			response, err := p.storage.connection.Client.Get(ctx, p.root()+prefix+"/", clientv3.WithPrefix(),
				clientv3.WithCountOnly(), clientv3.WithRev(revision))
			if err != nil {
				return err
			}
			counts[i] = response.Count
			return nil
		})
	}
	return counts, requests.Wait()
}
