package testplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// process runs in a job, which the system ends when this process closes its handle
// or ends.
type process struct {
	cmd *exec.Cmd
	job windows.Handle
}

func startProcess(options CommandOptions) (*process, error) {
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("make a job for it: %w", err)
	}
	p := &process{job: job, cmd: &exec.Cmd{Path: filepath.Clean(options.Path), Args: options.Args, Env: options.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}}
	if err := p.cmd.Start(); err != nil {
		_ = windows.CloseHandle(job) // it is empty
		return nil, err
	}
	if err = p.join(); err != nil {
		err = fmt.Errorf("put it into a job: %w", err)
	} else {
		err = options.Announce(0)
	}
	if err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		_ = windows.CloseHandle(job)
		return nil, err
	}
	return p, nil
}

// newJob returns a job whose processes end with its last handle.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

func (p *process) join() error {
	handle, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.cmd.Process.Pid))
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(handle) }()
	return windows.AssignProcessToJobObject(p.job, handle)
}

func (p *process) group() int { return 0 }

func (p *process) wait() int {
	_ = p.cmd.Wait() // the exit code has the result
	return p.cmd.ProcessState.ExitCode()
}

// signal does nothing: the console has sent Ctrl-C to each of its processes.
func (p *process) signal(os.Signal) {}

// killedCode is the exit code of a command that was killed.
const killedCode = 1

func (p *process) kill() { _ = windows.TerminateJobObject(p.job, killedCode) }

// end ends what is left at once: Windows has no SIGTERM.
func (p *process) end(time.Duration) {
	p.kill()
	_ = windows.CloseHandle(p.job)
}
