package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// orphanAge is how long a child that has ended is left to whoever started it.
const orphanAge = 3 * time.Second

// adoptOrphans does the duty of a container's first process until ctx ends:
// it collects processes that lost their parent, which would stay as zombies.
// Children of this process are collected by those who started them and wait
// for them; the delay leaves them the time.
func adoptOrphans(ctx context.Context) {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		defer signal.Stop(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ended:
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(orphanAge):
			}
			collect()
		}
	}()
}

// collect takes all children that have ended.
func collect() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid <= 0 || err != nil {
			return // none has ended, or there are none
		}
	}
}
