package datastore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
)

const (
	// readingInterval is the time between two reports of a start that reads a large
	// database.
	readingInterval = 10 * time.Second
	// The start timeout is extended for at most readingBase and the time that the
	// database takes at readingRate bytes per second. Then the service manager ends
	// a start that hangs.
	readingBase = 5 * time.Minute
	readingRate = 4 << 20
)

// ReadWithProgress calls read, which reads the embedded database in dir. While that takes
// long, it logs progress and extends the start timeout of the service manager: it
// calls notify with states of systemd's sd_notify protocol.
func ReadWithProgress(ctx context.Context, dir string, log *slog.Logger,
	notify func(state string), read func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { reportReading(ctx, dir, log, notify, readingInterval) })
	defer func() {
		cancel()
		reporting.Wait()
	}()
	return read()
}

// reportReading reports in each interval until ctx ends or the time for reading is
// over.
func reportReading(ctx context.Context, dir string, log *slog.Logger,
	notify func(state string), interval time.Duration) {
	began := time.Now()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		size, err := etcd.StoppedSize(dir)
		if err != nil {
			log.Warn("the size of the database is unknown", "error", err)
		}
		took := time.Since(began).Round(time.Second)
		log.Info("still reading the database", "bytes", size, "took", took.String())
		if time.Since(began) > readingBase+time.Duration(size/readingRate)*time.Second {
			log.Warn("reading the database takes too long: the start timeout is not extended further")
			return
		}
		notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=reading the database (%s), for %s",
			(3 * interval).Microseconds(), datadir.Size(size), took))
	}
}
