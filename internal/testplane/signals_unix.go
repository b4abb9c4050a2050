//go:build !windows

package testplane

import (
	"os"
	"syscall"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// Forwarded are the signals that this process passes on to a command.
var Forwarded = []os.Signal{
	os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT,
}

// ending are the signals that end a run without a command. A terminal that is closed
// sends SIGHUP.
var ending = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// ExportLine returns the line that sets a variable of the environment in a POSIX shell.
func ExportLine(name, value string) string { return "export " + name + "=" + logging.ShellWord(value) }
