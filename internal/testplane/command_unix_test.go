//go:build !windows

package testplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
)

// TestCommandWaitsForTheGuard: a command does not run before the guard has its process
// group. If this process were killed then, no process would end it.
func TestCommandWaitsForTheGuard(t *testing.T) {
	// The command would inherit it, and end by itself.
	signal.Ignore(syscall.SIGTERM)
	t.Cleanup(func() { signal.Reset(syscall.SIGTERM) })
	read, write, err := os.Pipe()
	if err == nil {
		err = read.Close() // the guard was killed
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = write.Close() })
	file := filepath.Join(t.TempDir(), "ran")
	r := &runner{
		RunOptions: RunOptions{ServerOptions: ServerOptions{Err: io.Discard}, Command: []string{"sh", "-c", "echo ran >" + file}, Grace: time.Minute},
		server:     &Server{dir: &Directory{path: t.TempDir()}, guard: &Guard{pipe: write}},
	}
	if r.path, err = FindCommand("sh"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.use(t.Context(), appliance.Running{}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("it returned %v, want that the guard is gone", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command ran (%v)", err)
	}
}

// TestCommandIsStarted: a program gets its arguments and environment; one that cannot be
// run is an error.
func TestCommandIsStarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	announced := 0
	start := func(path string, args ...string) (*Command, error) {
		return StartCommand(CommandOptions{
			Path: path, Args: args, Env: []string{"FILE=" + file}, Grace: time.Minute,
			Announce: func(group int) error { announced = group; return nil },
		})
	}
	path, err := FindCommand("sh")
	if err != nil {
		t.Fatal(err)
	}
	command, err := start(path, "name", "-c", `echo "$0 $1 $$ $(env | grep -c KUBE_HYPER_MINI_CHILD)" >"$FILE"; exit 7`, "zero", "one two")
	if err != nil {
		t.Fatal(err)
	}
	<-command.Ended()
	command.End()
	if command.Code() != 7 {
		t.Errorf("its exit code is %d", command.Code())
	}
	out, err := os.ReadFile(file)
	if want := fmt.Sprintf("zero one two %d 0\n", announced); err != nil || string(out) != want {
		t.Errorf("it wrote %q, %v, want %q", out, err, want)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	var refused *CommandError
	if _, err := start(text, "text"); !errors.As(err, &refused) || refused.Code != CodeNotExecutable || !errors.Is(err, syscall.ENOEXEC) {
		t.Errorf("a file that is no program: %v", err)
	}
	if processes := syscall.Kill(-announced, 0); !errors.Is(processes, syscall.ESRCH) {
		t.Errorf("its process is left: %v", processes)
	}
}
