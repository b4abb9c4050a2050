package datastore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

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

// Reading calls read, which reads the embedded database in dir. While that takes
// long it logs so, and asks the service manager for more time: notify is called
// with states of systemd's sd_notify protocol.
func Reading(ctx context.Context, dir string, log *slog.Logger, notify func(state string), read func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { reportReading(ctx, dir, log, notify, readingInterval) })
	defer func() {
		cancel()
		reporting.Wait()
	}()
	return read()
}

// reportReading gives a sign of life in each interval until ctx ends or the
// database should have been read.
func reportReading(ctx context.Context, dir string, log *slog.Logger, notify func(state string), interval time.Duration) {
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
			log.Warn("reading the database takes longer than a slow disk needs, no more time is asked for")
			return
		}
		notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=reading the database (%d MiB), for %s", (3 * interval).Microseconds(), size>>20, took))
	}
}
