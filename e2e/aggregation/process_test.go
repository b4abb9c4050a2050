package aggregation

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// process is a server that is not the product.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	log    *output
	exited chan struct{}
}

// start runs a program until the test ends or stop is called.
func start(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), log: &output{}, exited: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	go func() {
		_ = p.cmd.Wait() // the tests end it, and look at what they see of it
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.stop(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", program, p.log.tail())
		}
	})
	return p
}

// stop signals the process, if it runs, and waits until it has ended.
func (p *process) stop(signal os.Signal) {
	p.t.Helper()
	select {
	case <-p.exited:
		return
	default:
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Logf("signal %s: %v", p.cmd.Path, err)
	}
	select {
	case <-p.exited:
	case <-time.After(harness.Patience):
		p.t.Errorf("%s did not end", p.cmd.Path)
		_ = p.cmd.Process.Kill() // the test has failed already
	}
}

// output is written by a process and read by the test.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.b.String()
	return text[max(0, len(text)-4000):]
}

func target(port int) string { return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
