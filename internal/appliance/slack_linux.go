package appliance

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// restingSlack is how late a timer may fire in a process that has nothing to
	// do, and busySlack in one that has: the kernel's default. With 40 ms an idle
	// server costs 0.7 to 0.8 % of a core, with 100 ms 0.55 to 0.7 %; requests to
	// one that rests take as long with either.
	restingSlack = 100 * time.Millisecond
	busySlack    = 50 * time.Microsecond
)

// relaxTimers lets the kernel put off the wake-ups of this process, so that
// those that fall near each other become one, or no longer. Some fifty queues
// that each measure themselves twice a second, raft's ticks and the bookmarks of
// the watch caches are 250 wake-ups a second, which is nearly all that an idle
// server costs. What arrives from outside is not put off.
//
// A busy process cannot have it: the Go runtime has a thread that looks every
// 20 µs whether one of its processors is held by a system call, which etcd's
// syncs of the disk do a thousand times a second.
//
// Setting it stops the process until all threads have taken it, which is as long
// as a sync of the disk that is under way. That happens when a server comes to
// rest and when one that rests has a load, and not while it has one.
//
// Threads inherit the slack from the one that makes them.
func relaxTimers(relaxed bool) error {
	slack := busySlack
	if relaxed {
		slack = restingSlack
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0); errno != 0 {
		return fmt.Errorf("set the timer slack: %w", errno)
	}
	return nil
}
