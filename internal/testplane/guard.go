package testplane

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GuardCommand is the hidden command of this program that calls [Watch].
const GuardCommand = "guard"

// The lines that a guard reads.
const (
	guardDirectory = "directory " // with a path: remove it
	guardGroup     = "group "     // with a process group: end it; 0 forgets it
	guardGrace     = "grace "     // with a duration: how long the group has after SIGTERM
	guardRelease   = "release"    // this process has cleaned up itself
)

// Guard is a process that removes the files of this process if this is killed. It reads
// a pipe, which ends with this process.
type Guard struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	pipe *os.File
}

// StartGuard starts the guard of the directory. The end of this process without a
// call of Release makes it remove the directory, on each operating system.
func StartGuard(directory string) (*Guard, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start its guard: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the pipe of the guard: %w", err)
	}
	g := &Guard{cmd: exec.Command(program, GuardCommand), pipe: write}
	g.cmd.Args[0] = "kube-hyper-mini" // the program may have been started under another name
	g.cmd.Dir = os.TempDir()          // not the working directory, which it would hold
	g.cmd.Stdin = read
	g.cmd.SysProcAttr = detached()
	err = g.cmd.Start()
	if err = errors.Join(err, read.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), write.Close())
	}
	return g, g.send(guardDirectory + strconv.Quote(directory))
}

// send sends an order to the guard.
func (g *Guard) send(line string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := io.WriteString(g.pipe, line+"\n"); err != nil {
		return fmt.Errorf("send an order to the guard: %w", err)
	}
	return nil
}

// End orders the guard to end a process group before it removes the directory,
// with SIGTERM, and with SIGKILL after the grace. Group 0 revokes the order.
func (g *Guard) End(group int, grace time.Duration) error {
	return errors.Join(g.send(guardGrace+grace.String()), g.send(guardGroup+strconv.Itoa(group)))
}

// Release ends the guard without a cleanup.
func (g *Guard) Release() error {
	err := g.send(guardRelease)
	err = errors.Join(err, g.pipe.Close(), g.cmd.Wait())
	if err != nil {
		return fmt.Errorf("release the guard: %w", err)
	}
	return nil
}

// orders are what a guard has read.
type orders struct {
	directory string
	group     int
	grace     time.Duration
	released  bool
}

// read reads to the end of the input.
func (o *orders) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := o.take(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (o *orders) take(line string) (err error) {
	if text, ok := strings.CutPrefix(line, guardDirectory); ok {
		o.directory, err = strconv.Unquote(text)
	} else if text, ok := strings.CutPrefix(line, guardGroup); ok {
		o.group, err = strconv.Atoi(text)
	} else if text, ok := strings.CutPrefix(line, guardGrace); ok {
		o.grace, err = time.ParseDuration(text)
	} else if line == guardRelease {
		o.released = true
	} else {
		err = errors.New("unknown")
	}
	if err != nil {
		return fmt.Errorf("read the order %q: %w", line, err)
	}
	return nil
}

// Watch is the work of the guard process: it reads orders to the end of the input, and then
// ends the process group and removes the directory, unless it was released.
func Watch(in io.Reader) error {
	ignoreSignals()
	var o orders
	if err := o.read(in); err != nil {
		return err
	}
	if o.released {
		return nil
	}
	if o.group != 0 {
		endGroup(o.group, o.grace)
	}
	if o.directory == "" {
		return nil
	}
	return removeAll(o.directory)
}

// removals bounds the guard's attempts to remove a directory: on Windows, a file that a
// process has open cannot be removed until the process has ended.
const removals = 100

func removeAll(path string) error {
	var err error
	for range removals {
		if err = os.RemoveAll(path); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("remove the temporary directory: %w", err)
}
