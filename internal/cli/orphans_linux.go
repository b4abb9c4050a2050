package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// orphanAge is the time after which collect waits for a child: the code that started the
// child must wait for it before.
const orphanAge = 3 * time.Second

// adoptOrphans reaps orphaned processes until ctx ends if this process is a
// container's init (pid 1). It waits orphanAge, since the process also has
// children of its own, which the code that started them waits for.
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

// collect waits for all children that have ended.
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
