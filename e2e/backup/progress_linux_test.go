package backup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// terminal is a pseudo terminal and what was written to it.
type terminal struct {
	command *os.File // the end of the command

	mu  sync.Mutex
	out bytes.Buffer
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() }) // nothing is written to it
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 120})
	}
	term := &terminal{}
	if err == nil {
		term.command, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { // until the command has ended and its end is closed
		for piece := make([]byte, 4096); ; {
			n, err := screen.Read(piece)
			term.mu.Lock()
			term.out.Write(piece[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return term
}

// shows waits until something was written that matches.
func (s *terminal) shows(t *testing.T, pattern string) {
	t.Helper()
	match := regexp.MustCompile(pattern)
	harness.Eventually(t, "the terminal shows "+pattern, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !match.Match(s.out.Bytes()) {
			return errors.New(s.out.String())
		}
		return nil
	})
}

// TestRestoreOnATerminal: a restore that takes longer than a second shows how far it is.
func TestRestoreOnATerminal(t *testing.T) {
	t.Parallel()
	store := harness.StartS3(t)
	gate := harness.NewGate(t, store.Endpoint)
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 100ms}\n",
		store.URL("mini"), store.Endpoint, store.CredentialsFile)))
	journaled(t, s)
	for i := range 3 {
		create(t, s, fmt.Sprintf("object-%d", i))
		journaled(t, s)
	}
	s.Kill()
	bases, err := os.ReadDir(filepath.Join(store.Dir, "mini", "chains", "00000001", "bases"))
	if err != nil || len(bases) != 1 {
		t.Fatalf("the journal has the bases %v, %v", bases, err)
	}
	var revision, sequence int
	if _, err := fmt.Sscanf(bases[0].Name(), "%d-%d-", &revision, &sequence); err != nil {
		t.Fatal(err)
	}
	releaseBase := gate.Hold("/bases/")
	screen := newTerminal(t)
	cmd := exec.Command(harness.Binary(t), "backup", "restore", "--data-dir", t.TempDir(), "--from", store.URL("mini"), "--endpoint", gate.URL, "--region", "us-east-1")
	cmd.Env = append(os.Environ(), store.Env...)
	cmd.Stdout, cmd.Stderr = screen.command, screen.command
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test has failed
	_ = screen.command.Close()                   // the command has it
	screen.shows(t, `restoring from the journal: 0 B of the base of .*, [1-9]`)
	releaseSegments := gate.Hold(fmt.Sprintf("/segments/%010d-", sequence+1))
	releaseBase()
	screen.shows(t, `restoring from the journal: 1 of [0-9]+ segments, [1-9]`)
	releaseSegments()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the restore fails: %v", err)
	}
	screen.shows(t, `restored .* objects as of revision`)
}
