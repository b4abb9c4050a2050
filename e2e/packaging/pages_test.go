package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestManPagesAndCompletions runs the script that packages and archives use.
func TestManPagesAndCompletions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "share")
	script := filepath.Join(harness.Root(t), "scripts", "man-and-completions.sh")
	if out, err := harness.Run(t, "", script, harness.Binary(t), dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	help, code := harness.CLI(t, "--help")
	if code != 0 {
		t.Fatal(help)
	}
	_, commands, _ := strings.Cut(help, "Available Commands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	for line := range strings.Lines(commands) {
		command := strings.Fields(line)[0]
		if command == "help" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "man", "man1", "kube-hyper-mini-"+command+".1.gz")); err != nil {
			t.Errorf("no page for %s: %v", command, err)
		}
	}
	_, topics, _ := strings.Cut(help, "Help topics")
	if n := strings.Count(topics, "\n"); n < 14 {
		t.Errorf("the help lists %d topics:\n%s", n, help)
	}
	for line := range strings.Lines(topics) {
		if name, isTopic := strings.CutPrefix(line, "  "); isTopic {
			if _, err := os.Stat(filepath.Join(dir, "man", "man7", "kube-hyper-mini-"+strings.Fields(name)[0]+".7.gz")); err != nil {
				t.Errorf("no page for the topic: %v", err)
			}
		}
	}
	if strings.Contains(help, "\n  man ") {
		t.Error("man is for the packages, and hidden")
	}
	// bash accepts the file, and it completes the commands.
	completion := filepath.Join(dir, "completions", "kube-hyper-mini.bash")
	if out, err := exec.Command("bash", "-n", completion).CombinedOutput(); err != nil {
		t.Errorf("bash: %v\n%s", err, out)
	}
	if out, code := harness.CLI(t, "__complete", "kubeconfig", "cr"); code != 0 || !strings.HasPrefix(out, "create\t") {
		t.Errorf("kubeconfig cr<TAB>: exit code %d:\n%s", code, out)
	}
}

func TestManPagesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if out, code := harness.CLI(t, "man", "/dev/null/x"); code != 1 || !strings.Contains(out, "write the manual pages") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, code := harness.CLI(t, "man"); code != 2 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
