//go:build !windows

package testplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane/early"
)

// startProcess starts a child that waits in package early, announces its process group,
// and then has the child become the program: if this process is killed before, the child
// ends, and if it is killed later, its guard knows the group.
func startProcess(options CommandOptions) (*process, error) {
	child, err := startChild(options)
	if err != nil {
		return nil, err
	}
	p := &process{pid: child.pid, foreground: ownsTerminal()}
	if err := options.Announce(p.pid); err != nil {
		return nil, errors.Join(err, child.abandon())
	}
	if p.foreground {
		signal.Ignore(syscall.SIGTTOU) // otherwise taking back the terminal would stop this process
		giveTerminal(p.pid)
	}
	if err := child.become(options); err != nil {
		if p.foreground {
			giveTerminal(unix.Getpgrp())
		}
		return nil, err
	}
	return p, nil
}

// child is a process of package early that waits for its program.
type child struct {
	pid     int
	message io.WriteCloser
	result  io.ReadCloser
}

func startChild(options CommandOptions) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start a process of it: %w", err)
	}
	messageRead, messageWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	resultRead, resultWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, messageRead.Close(), messageWrite.Close())
	}
	started, err := os.StartProcess(program, []string{"kube-hyper-mini"}, &os.ProcAttr{
		Env:   append(os.Environ(), early.Command),
		Files: append([]*os.File{os.Stdin, os.Stdout, os.Stderr, early.MessageFile: messageRead, early.ResultFile: resultWrite}, options.Files...),
		Sys:   options.system(),
	})
	closeErr := errors.Join(messageRead.Close(), resultWrite.Close())
	if err != nil {
		return nil, errors.Join(err, closeErr, messageWrite.Close(), resultRead.Close())
	}
	c := &child{pid: started.Pid, message: messageWrite, result: resultRead}
	if err := errors.Join(closeErr, started.Release()); err != nil { // wait uses the pid
		return nil, errors.Join(err, c.abandon())
	}
	return c, nil
}

// become has the child become the program. It returns why it cannot.
func (c *child) become(options CommandOptions) error {
	_, err := c.message.Write(early.Message(options.Path, options.Args, options.Env))
	if err = errors.Join(err, c.message.Close()); err != nil {
		return errors.Join(err, c.abandon())
	}
	number, err := io.ReadAll(c.result) // to the moment at which it is the program
	if len(number) == early.ResultSize {
		err = errors.Join(err, syscall.Errno(early.Uint32(number)))
	}
	if err != nil {
		return errors.Join(err, c.abandon())
	}
	return c.result.Close()
}

// abandon ends the child and waits for it.
func (c *child) abandon() error {
	_, _ = c.message.Close(), c.result.Close() // one may be closed
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(c.pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
