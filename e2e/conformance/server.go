package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// startPatience and stopPatience say when to give up on a server, not how
	// long it takes.
	startPatience = 2 * time.Minute
	stopPatience  = 2 * time.Minute
)

// server is a process of the product with a data directory of its own, or one that runs
// the other side.
type server struct {
	kubeconfig string
	cmd        *exec.Cmd
	log        *os.File
	exited     chan struct{}
	err        error // what Wait returned, once exited is closed
}

// startProduct starts the product with the configuration file in an empty data
// directory below dir, on a free port, and waits until it is ready.
func startProduct(ctx context.Context, product, config, dir, logFile string) (*server, error) {
	data := filepath.Join(dir, "data")
	cmd := exec.Command(product, "server", "--config", config, "--data-dir", data, "--port", "0")
	s, err := start(cmd, logFile, nil)
	if err != nil {
		return nil, err
	}
	s.kubeconfig = filepath.Join(data, "admin.kubeconfig")
	if err := s.waitReady(ctx, product, data); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server (its log is %s): %w", logFile, err), s.stop())
	}
	return s, nil
}

// startOtherSide starts the benchmark in the directory of its module, to run etcd,
// kube-apiserver and kube-controller-manager with data below dir. The benchmark builds
// them, and prints the path of the kubeconfig when they are ready.
func startOtherSide(ctx context.Context, bench, module, dir, logFile string) (*server, error) {
	cmd := exec.Command(bench, "-serve", "-dir", dir)
	cmd.Dir = module
	firstLine := make(chan string, 1)
	s, err := start(cmd, logFile, &lineReader{line: firstLine})
	if err != nil {
		return nil, err
	}
	select {
	case s.kubeconfig = <-firstLine:
		return s, nil
	case <-s.exited:
		err = errors.New("it has ended")
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(fmt.Errorf("start the other side (its log is %s): %w", logFile, err), s.stop())
}

// lineReader passes on the first line that is written to it.
type lineReader struct {
	text []byte
	line chan<- string
}

// Write implements [io.Writer].
func (l *lineReader) Write(output []byte) (int, error) {
	if l.line != nil {
		l.text = append(l.text, output...)
		if line, _, found := bytes.Cut(l.text, []byte("\n")); found {
			l.line <- string(line)
			l.line = nil
		}
	}
	return len(output), nil
}

// start starts the command with its output in a file, and its standard output in stdout
// if that is not nil.
func start(cmd *exec.Cmd, logFile string, stdout io.Writer) (*server, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("make the server's log: %w", err)
	}
	s := &server{cmd: cmd, log: log, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = log, log
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), log.Close())
	}
	go func() {
		s.err = cmd.Wait()
		close(s.exited)
	}()
	return s, nil
}

// waitReady calls the command status.
func (s *server) waitReady(ctx context.Context, product, data string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a server that has ended will not become ready
		select {
		case <-s.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	if out, err := exec.CommandContext(ctx, product, "status", "--data-dir", data, "--wait", startPatience.String()).CombinedOutput(); err != nil {
		return fmt.Errorf("wait until it is ready: %w\n%s", err, out)
	}
	return nil
}

// stop signals the server to stop and waits. It fails if the server does not end,
// ended before, or does not end well.
func (s *server) stop() error {
	defer s.log.Close() //nolint:errcheck // the process has written to it, not we
	select {
	case <-s.exited:
		return errors.Join(errors.New("the server has ended by itself"), s.err)
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	deadline := time.NewTimer(stopPatience)
	defer deadline.Stop()
	select {
	case <-s.exited:
	case <-deadline.C:
		err := errors.Join(errors.New("stop the server: it does not end"), s.cmd.Process.Kill())
		<-s.exited
		return err
	}
	if s.err != nil {
		return fmt.Errorf("stop the server: %w", s.err)
	}
	return nil
}
