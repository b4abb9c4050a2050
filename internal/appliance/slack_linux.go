package appliance

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how late a timer may fire in a process that has nothing to do.
const timerSlack = 40 * time.Millisecond

// relaxTimers lets the kernel put off the wake-ups of this process by the
// slack, so that those that fall near each other become one. Some fifty queues
// that each measure themselves twice a second, raft's ticks and the bookmarks of
// the watch caches are 250 wake-ups a second, which is nearly all that an idle
// server costs. What arrives from outside is not put off, and a process that is
// busy looks at its timers all the time.
//
// Threads inherit the slack from the one that makes them.
func relaxTimers() error {
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, uintptr(timerSlack.Nanoseconds()), 0); errno != 0 {
		return fmt.Errorf("set the timer slack: %w", errno)
	}
	return nil
}
