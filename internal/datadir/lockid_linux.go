package datadir

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// bootIDFile has a random number that the kernel makes at each boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// lockID names the file and the boot of the machine. A copy of the file, and the same file
// on another machine or after a boot, has another one. It is empty if that is not known.
func lockID(lock *os.File) string {
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	info, err := lock.Stat()
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s-%x-%x", strings.TrimSpace(string(boot)), stat.Dev, stat.Ino)
}
