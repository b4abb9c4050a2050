package testplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
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
		return nil, fmt.Errorf("make a job object for COMMAND: %w", err)
	}
	p := &process{job: job, cmd: &exec.Cmd{
		Path: filepath.Clean(options.Path), Args: options.Args, Env: options.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		// It runs when it is in the job: its children are in the job too.
		SysProcAttr: &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED},
	}}
	if err := p.cmd.Start(); err != nil {
		_ = windows.CloseHandle(job) // it is empty
		return nil, err
	}
	if err = p.join(); err != nil {
		err = fmt.Errorf("put COMMAND into the job object: %w", err)
	} else {
		err = options.Announce(0)
	}
	if err == nil {
		err = resume(uint32(p.cmd.Process.Pid))
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

// resume runs the only thread of a process that was started suspended.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list the threads of COMMAND: %w", err)
	}
	defer func() { _ = windows.CloseHandle(snapshot) }()
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open the thread of COMMAND: %w", err)
		}
		_, err = windows.ResumeThread(thread)
		return errors.Join(err, windows.CloseHandle(thread))
	}
	return fmt.Errorf("find the thread of COMMAND: %w", err)
}

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
