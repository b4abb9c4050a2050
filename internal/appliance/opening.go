package appliance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
)

const (
	// readingInterval is between two signs of life of a start that reads a
	// large database.
	readingInterval = 10 * time.Second
	// readingBase and readingRate, in bytes per second, bound how much time is
	// asked for: a start that hangs must still be ended.
	readingBase = 5 * time.Minute
	readingRate = 4 << 20
)

// external says whether the store is run elsewhere.
func (p *process) external() bool { return len(p.config.Etcd.External.Endpoints) > 0 }

// beforeOpening archives what another release has left in the embedded etcd,
// before this release's etcd opens it.
func (p *process) beforeOpening(ctx context.Context) error {
	if p.external() || !etcd.Exists(p.dir.Join("etcd")) {
		return nil
	}
	archiver := admin.NewStoppedArchiver(p.config, p.dir, p.stamp, p.log)
	return p.reading(ctx, func() error { return archiver.BeforeUpgrade(ctx) })
}

// reading calls read, which reads the embedded database. While that takes long
// it logs so, and asks the service manager for more time.
func (p *process) reading(ctx context.Context, read func() error) error {
	if p.external() {
		return read()
	}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { p.tellReading(ctx, readingInterval) })
	defer func() {
		cancel()
		telling.Wait()
	}()
	return read()
}

// tellReading gives a sign of life in each interval until ctx ends or the
// database should have been read.
func (p *process) tellReading(ctx context.Context, interval time.Duration) {
	began := time.Now()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		size, err := etcd.StoppedSize(p.dir.Join("etcd"))
		if err != nil {
			p.log.Warn("the size of the database is unknown", "error", err)
		}
		took := time.Since(began).Round(time.Second)
		p.log.Info("still reading the database", "bytes", size, "took", took.String())
		if time.Since(began) > readingBase+time.Duration(size/readingRate)*time.Second {
			p.log.Warn("reading the database takes longer than a slow disk needs, no more time is asked for")
			return
		}
		p.notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=reading the database (%d MiB), for %s", (3 * interval).Microseconds(), size>>20, took))
	}
}
