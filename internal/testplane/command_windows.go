package testplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// process is one process: those that it starts are not ended with it.
type process struct{ cmd *exec.Cmd }

func startProcess(options CommandOptions) (*process, error) {
	cmd := &exec.Cmd{
		Path: filepath.Clean(options.Path), Args: options.Args, Env: options.Env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd}, options.Announce(0)
}

func (p *process) wait() int {
	_ = p.cmd.Wait() // the exit code has the result
	return p.cmd.ProcessState.ExitCode()
}

// signal does nothing: the console has sent Ctrl-C to each of its processes.
func (p *process) signal(os.Signal) {}

func (p *process) kill() { _ = p.cmd.Process.Kill() } // it may have ended

// end ends the process at once: Windows has no SIGTERM.
func (p *process) end(time.Duration) { p.kill() }
