package testplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The exit codes of a command that cannot be started, as a shell has them.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// CommandError means that a command could not be started, or that a signal came before it was.
type CommandError struct {
	// Code is CodeNotFound, CodeNotExecutable, or 128 plus the number of the signal.
	Code int
	Err  error
}

// Error implements error.
func (e *CommandError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *CommandError) Unwrap() error { return e.Err }

// FindCommand returns the path of a program. The error is a [CommandError].
func FindCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EISDIR):
		return "", &CommandError{CodeNotExecutable, fmt.Errorf("COMMAND %q cannot be run: %w", name, err)}
	}
	return "", &CommandError{CodeNotFound,
		fmt.Errorf("COMMAND %q cannot be run: %w; COMMAND is what follows \"--\"", name, err)}
}

// Command is a program that runs with the standard streams of this process, in a
// process group of its own (not on Windows).
type Command struct {
	process *process
	grace   time.Duration
	// ended is closed when the program has ended. Others in its process group may still run. code
	// is its exit code then: 128 plus the number of the signal if a signal has ended it.
	ended  chan struct{}
	code   int
	killed atomic.Bool // by KillAfterGrace

	once sync.Once // of KillAfterGrace
}

// CommandOptions describe a command.
type CommandOptions struct {
	// Path is that of the program, and Args are its arguments, the first of which is
	// its name.
	Path      string
	Args, Env []string
	// Grace is the time between SIGTERM and SIGKILL in [Command.End].
	Grace time.Duration
	// Announce is called with the process group (0 on Windows) as soon as there is one.
	// After an error the group is killed.
	Announce func(group int) error
}

// StartCommand starts a program. The error is a [CommandError], or wraps that of
// Announce.
func StartCommand(options CommandOptions) (*Command, error) {
	p, err := startProcess(options)
	if err != nil {
		return nil, &CommandError{CodeNotExecutable, fmt.Errorf("COMMAND %q cannot be run: %w", options.Path, err)}
	}
	c := &Command{process: p, grace: options.Grace, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.code = p.wait()
	}()
	return c, nil
}

// KillAfterGrace kills the process group if the program has not ended when the
// grace has passed. Later calls do nothing.
func (c *Command) KillAfterGrace() {
	c.once.Do(func() {
		go func() {
			select {
			case <-c.ended:
			case <-time.After(c.grace):
				c.killed.Store(true)
				c.process.kill()
			}
		}()
	})
}

// End ends the remaining processes of the process group, and waits for the
// program.
func (c *Command) End() {
	c.process.end(c.grace)
	<-c.ended
}
