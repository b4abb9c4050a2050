package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestK9s shows custom resources in k9s, which runs in a terminal of tmux, as
// the help topic clients describes.
func TestK9s(t *testing.T) {
	if os.Getenv(variable) == "" {
		t.Skip("make e2e-clients runs it")
	}
	program := harness.Build(t, filepath.Join(harness.Root(t), "e2e", "k9s"), "github.com/derailed/k9s", "k9s")
	s := harness.Start(t)
	examples := filepath.Join(harness.Root(t), "config", "examples")
	s.Kubectl("", "apply", "-f", filepath.Join(examples, "widgets.yaml"))
	s.Kubectl("", "wait", "--for=condition=Established", "--timeout=1m", "crd/widgets.example.com")
	s.Kubectl("", "apply", "-n", "default", "-f", filepath.Join(examples, "widget.yaml"))
	scripts := harness.Scripts(t, harness.Topic("clients"), "## k9s")
	if len(scripts) != 1 {
		t.Fatalf("the section has %d scripts", len(scripts))
	}
	screen := terminal(t, s, strings.Replace(scripts[0].Line, "k9s", program, 1))
	screen.shows("widgets(all)", "SIZE", "default", "one")
	screen.press("d")
	screen.shows("Describe(default/one)", "Size:  3")
	screen.press("Escape")
	screen.shows("widgets(all)", "one")
	screen.press(":", "c", "r", "d", "s", "Enter")
	screen.shows("customresourcedefinitions(all)", "widgets", "serviceendpoints")
}

// tmux is a terminal with a program.
type tmux struct {
	t      *testing.T
	socket string
}

// terminal runs a command in a terminal, as the server's administrator, until the test
// ends.
func terminal(t *testing.T, s *harness.Server, command string) tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatalf("install tmux: %v", err)
	}
	dir := t.TempDir()
	screen := tmux{t, filepath.Join(dir, "tmux")}
	screen.run("-f", os.DevNull, "new-session", "-d", "-x", "160", "-y", "50",
		"-e", "KUBECONFIG="+s.Kubeconfig, "-e", "HOME="+dir, "-e", "K9S_CONFIG_DIR="+filepath.Join(dir, "k9s"), "exec "+command+" 2>"+filepath.Join(dir, "errors"))
	t.Cleanup(func() {
		if t.Failed() {
			errors, _ := os.ReadFile(filepath.Join(dir, "errors")) // k9s may have none
			t.Logf("the terminal shows:\n%s\n%s", screen.capture(), errors)
		}
		_ = exec.Command("tmux", "-S", screen.socket, "kill-server").Run() // it ends with its program
	})
	return screen
}

func (s tmux) run(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Errorf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// press sends keys, with tmux' names.
func (s tmux) press(keys ...string) {
	s.t.Helper()
	s.run(append([]string{"send-keys"}, keys...)...)
}

// capture is what the terminal shows.
func (s tmux) capture() string {
	out, err := exec.Command("tmux", "-S", s.socket, "capture-pane", "-p").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return string(out)
}

// shows waits until the terminal shows all of these.
func (s tmux) shows(want ...string) {
	s.t.Helper()
	harness.Eventually(s.t, "the terminal shows "+strings.Join(want, ", "), func() error {
		screen := s.capture()
		for _, text := range want {
			if !strings.Contains(screen, text) {
				return fmt.Errorf("it lacks %q:\n%s", text, screen)
			}
		}
		return nil
	})
}
