package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Session is a shell in which the commands of documents are entered one after
// the other, as a reader does: variables and background jobs stay. Its directory
// looks like a clone, and kubectl and kube-hyper-mini are those under test.
type Session struct {
	t     testing.TB
	s     *Server
	dir   string
	stdin io.WriteCloser
	out   *lockedBuffer
	n     int
	// port is that of the server's URL, which a kubeconfig keeps.
	port string
	// Replace is applied to each command, for ports and files that differ here.
	Replace *strings.Replacer
}

// NewSession starts the shell for that server. It ends with the test.
func NewSession(t testing.TB, s *Server) *Session {
	t.Helper()
	dir := t.TempDir()
	programs := filepath.Join(dir, "bin")
	if err := os.Mkdir(programs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config", "e2e", "go.mod", "go.sum", "main.go", "internal"} {
		link(t, filepath.Join(Root(t), name), filepath.Join(dir, name))
	}
	link(t, KubectlBinary(t), filepath.Join(programs, "kubectl"))
	for _, path := range []string{filepath.Join(programs, "kube-hyper-mini"), filepath.Join(dir, "kube-hyper-mini")} {
		if err := os.WriteFile(path, []byte(wrapper(Binary(t), s.Dir)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"HOME=" + t.TempDir(), "PATH=" + programs + string(os.PathListSeparator) + os.Getenv("PATH"), "KUBECONFIG=" + s.Kubeconfig}
	// go builds with the caches of the tests.
	caches := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	values, err := exec.Command("go", append([]string{"env"}, caches...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range strings.Split(strings.TrimSpace(string(values)), "\n") {
		env = append(env, caches[i]+"="+value)
	}
	session := NewShell(t, dir, append(env, "CGO_ENABLED=0"), nil)
	host := s.RESTConfig().Host
	session.s, session.port = s, host[strings.LastIndex(host, ":")+1:]
	return session
}

// NewShell is a Session in a directory that the caller has prepared, without a server.
// The environment is added to that of the test; the attributes can name another user. It
// ends with the test.
func NewShell(t testing.TB, dir string, env []string, attributes *syscall.SysProcAttr) *Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*Patience)
	cmd := exec.CommandContext(ctx, "bash", "-m") // job control, so that a job's signals are not ignored
	cmd.Dir, cmd.SysProcAttr = dir, attributes
	cmd.Env = append(os.Environ(), env...)
	session := &Session{t: t, dir: dir, out: &lockedBuffer{}}
	cmd.Stdout, cmd.Stderr = session.out, session.out
	var err error
	if session.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = io.WriteString(session.stdin, "kill $(jobs -p) 2>/dev/null; exit\n") // it may have ended
		_ = cmd.Wait()
		cancel()
	})
	return session
}

// Program makes a program available under the name.
func (c *Session) Program(name, path string) {
	c.t.Helper()
	link(c.t, path, filepath.Join(c.dir, "bin", name))
}

func link(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// wrapper returns a script that runs the program. It adds the data directory of the test
// to commands that have the flag --data-dir and are called without it. It refuses, as the program
// does in the default directory, a restore that would replace data without naming it.
func wrapper(program, dir string) string {
	return fmt.Sprintf(`#!/bin/bash
words=()
for word in "$@"; do case $word in -*) break ;; *) words+=("$word") ;; esac; done
case " $* " in *" --data-dir "* | *" --defaults "* | *" -h "* | *" --help "*) exec '%[1]s' "$@" ;; esac
if [[ "${words[*]}" == "backup restore"* && " $* " != *" --config "* && -e '%[2]s/version.json' ]]; then
	echo "%[2]s has the data of a server: name it with --data-dir" >&2
	exit 2
fi
if '%[1]s' "${words[@]}" --help 2>/dev/null | grep -q -e '--data-dir'; then
	set -- "${words[@]}" --data-dir '%[2]s' "${@:${#words[@]}+1}"
fi
exec '%[1]s' "$@"
`, program, dir)
}

// Enter runs the command and fails the test if the command fails, or its output is not
// that in the document. "systemctl stop" and "start" act on the test's server. A command
// must fail if the document shows an error.
func (c *Session) Enter(command Command) {
	c.t.Helper()
	switch command.Line {
	case "systemctl stop kube-hyper-mini":
		if code := c.s.Stop(); code != 0 {
			c.t.Fatalf("the server ended with exit code %d", code)
		}
		return
	case "systemctl start kube-hyper-mini":
		c.s = StartIn(c.t, c.s.Dir, "--port", c.port)
		return
	}
	line := command.Line
	if c.Replace != nil {
		line = c.Replace.Replace(line)
	}
	// Documents show where packages have the data.
	here := func(text string) string { return text }
	if c.s != nil {
		here = func(text string) string { return strings.ReplaceAll(text, "/var/lib/kube-hyper-mini", c.s.Dir) }
	}
	out, code := c.run(here(line))
	shown := Command{Output: slices.Clone(command.Output)}
	for i, text := range shown.Output {
		shown.Output[i] = here(text)
	}
	if refused := strings.Contains(strings.Join(command.Output, "\n"), "nvalid value"); (code != 0) != refused {
		c.t.Fatalf("%s: exit code %d\n%s", command.Line, code, out)
	}
	if !shown.Shown(out) {
		c.t.Errorf("%s does not show what the document does:\n%s", command.Line, out)
	}
}

// run enters the text and waits for its end.
func (c *Session) run(text string) (string, int) {
	c.t.Helper()
	c.n++
	begin, end := fmt.Sprintf("<<%d>>", c.n), fmt.Sprintf("<</%d ", c.n)
	// In braces, so that the text does not read what is entered next. If the text has
	// several commands, each must succeed.
	before, after := "", ""
	if strings.Contains(text, "\n") {
		before, after = "set -e; trap 'echo \""+end+"$?>>\"' EXIT\n", "\nset +e; trap - EXIT"
	}
	if _, err := fmt.Fprintf(c.stdin, "echo '%s'\n{ %s%s%s\n} </dev/null\necho \"%s$?>>\"\n", begin, before, text, after, end); err != nil {
		c.t.Fatalf("enter %s: %v\n%s", text, err, c.out.String())
	}
	var output string
	code := -1
	Within(c.t, 4*Patience, text+" ends", func() error {
		_, after, _ := strings.Cut(c.out.String(), begin+"\n")
		before, rest, found := strings.Cut(after, end)
		number, _, closed := strings.Cut(rest, ">>")
		if !found || !closed {
			return fmt.Errorf("it has not ended:\n%s", after)
		}
		output = before
		var err error
		code, err = strconv.Atoi(number)
		return err
	})
	return output, code
}
