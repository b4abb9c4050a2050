package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// orphanAge is the time between the end of a child and its reaping: the code that has
// started the child must wait for it within that time.
const orphanAge = 3 * time.Second

// adoptOrphans reaps orphaned processes until ctx ends if this process is the init of a
// container (pid 1), see orphanAge. The goroutine ends with the process or with ctx.
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
			reapEnded()
		}
	}()
}

// reapEnded waits for all children that have ended.
func reapEnded() {
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
