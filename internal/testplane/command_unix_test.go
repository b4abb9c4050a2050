//go:build !windows

package testplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
)

// TestCommandNeedsTheGuard: a command whose process group the guard does not get is ended. If
// this process were killed then, no process would end it.
func TestCommandNeedsTheGuard(t *testing.T) {
	read, write, err := os.Pipe()
	if err == nil {
		err = read.Close() // the guard was killed
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = write.Close() })
	r := &runner{
		RunOptions: RunOptions{Config: config.Default(), Err: io.Discard, Command: []string{"sleep", "1000"}, Grace: time.Minute},
		dir:        &Directory{Directory: temporary.Directory(t.TempDir()), guard: &Guard{pipe: write}},
	}
	if r.path, err = FindCommand("sleep"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.use(t.Context()); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("it returned %v, want that the guard is gone", err)
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
	command, err := start(path, "name", "-c", `echo "$0 $1 $$ $(env | grep -c ^FILE=)" >"$FILE"; exit 7`, "zero", "one two")
	if err != nil {
		t.Fatal(err)
	}
	<-command.ended
	command.End()
	if command.code != 7 {
		t.Errorf("its exit code is %d", command.code)
	}
	out, err := os.ReadFile(file)
	if want := fmt.Sprintf("zero one two %d 1\n", announced); err != nil || string(out) != want {
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
