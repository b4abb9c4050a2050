package testplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// GuardCommand is the hidden command of this program that calls [Watch].
const GuardCommand = "guard"

// Guard is a process that removes the files of this process if this is killed. It reads
// a pipe, which ends with this process.
type Guard struct {
	cmd *exec.Cmd

	mu     sync.Mutex
	pipe   *os.File
	orders orders
}

// orders are what a guard does when the pipe ends. The pipe has one after the other, as JSON;
// the last one counts.
type orders struct {
	Directory []byte        // to remove, if it is not empty; not each path is a string of JSON
	Group     int           // the process group to end before; 0 for none
	Grace     time.Duration // of the group after SIGTERM
	Released  bool          // do nothing
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
	return g, g.order(func(o *orders) { o.Directory = []byte(directory) })
}

// order changes the orders and sends them to the guard.
func (g *Guard) order(change func(*orders)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.orders)
	if err := json.NewEncoder(g.pipe).Encode(g.orders); err != nil {
		return fmt.Errorf("send an order to the guard: %w", err)
	}
	return nil
}

// End orders the guard to end a process group before it removes the directory,
// with SIGTERM, and with SIGKILL after the grace. Group 0 revokes the order.
func (g *Guard) End(group int, grace time.Duration) error {
	return g.order(func(o *orders) { o.Group, o.Grace = group, grace })
}

// Release ends the guard without a cleanup.
func (g *Guard) Release() error {
	err := g.order(func(o *orders) { o.Released = true })
	err = errors.Join(err, g.pipe.Close(), g.cmd.Wait())
	if err != nil {
		return fmt.Errorf("release the guard: %w", err)
	}
	return nil
}

// Watch is the work of the guard process: it reads orders to the end of the input, and then
// ends the process group and removes the directory, unless it was released.
func Watch(in io.Reader) error {
	ignoreSignals()
	var o orders
	for decoder := json.NewDecoder(in); ; {
		var next orders
		if decoder.Decode(&next) != nil {
			break // the end, or an order that was not sent completely
		}
		o = next
	}
	if o.Released {
		return nil
	}
	if o.Group != 0 {
		endGroup(o.Group, o.Grace)
	}
	if len(o.Directory) == 0 {
		return nil
	}
	return removeAll(string(o.Directory))
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
