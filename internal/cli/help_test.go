package cli

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/help"
)

// runCLI runs a command line without standard input.
func runCLI(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return stdout.String(), stderr.String(), code
}

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"help"}, ExitOK, "Help topics"},
		{[]string{"--help"}, ExitOK, "several-servers"},
		{[]string{"help", "network"}, ExitOK, "# Serving on a network"},
		{[]string{"help", "backup"}, ExitOK, "kube-hyper-mini backup --help"},
		{[]string{"help", "server"}, ExitOK, "Run the control plane"},
		{[]string{"help", "kubeconfig", "create"}, ExitOK, "--service-account"},
		{[]string{"help", "bakup"}, ExitUsage, `did you mean "backup"?`},
		{[]string{"help", "nonsense"}, ExitUsage, `no help topic or command "nonsense"; "kube-hyper-mini help" lists all`},
		{[]string{"help", "backup", "nonsense"}, ExitUsage, `no help topic or command "backup nonsense"`},
	} {
		out, errs, code := runCLI(t, c.args...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
	if out, _, _ := runCLI(t, "__complete", "help", ""); !strings.Contains(out, "network\n") {
		t.Errorf("help net<TAB>: %s", out)
	}
}

// invocation matches a command line of the program in the text of a document.
var invocation = regexp.MustCompile(`(?m)(?:^|^\$ |-- )(?:\./)?kube-hyper-mini ([a-z][^|>&#\n]*)`)

// TestDocumentedCommands: each command line in the README and the topics has a
// command and flags that exist.
func TestDocumentedCommands(t *testing.T) {
	documents := map[string]string{}
	for _, topic := range help.Topics() {
		documents["help "+topic.Name] = topic.Markdown
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	documents["README.md"] = string(readme)
	found := 0
	for name, text := range documents {
		for _, match := range invocation.FindAllStringSubmatch(blocksAndCode(text), -1) {
			found++
			if problem := unknown(strings.Fields(match[1])); problem != "" {
				t.Errorf("%s: kube-hyper-mini %s: %s", name, match[1], problem)
			}
		}
	}
	if found < 40 {
		t.Errorf("found only %d commands", found)
	}
}

// blocksAndCode is what a document has in code: blocks and `quotes`.
func blocksAndCode(text string) string {
	var code strings.Builder
	for i, block := range strings.Split(text, "```") {
		if i%2 == 1 {
			code.WriteString(block + "\n")
			continue
		}
		for j, span := range strings.Split(block, "`") {
			if j%2 == 1 {
				code.WriteString(span + "\n")
			}
		}
	}
	return code.String()
}

// unknown says what of a command line does not exist.
func unknown(words []string) string {
	root := newRoot(io.Discard)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	command, _, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if command == root || command.HasSubCommands() && command.Name() != "kubeconfig" && command.Name() != words[len(words)-1] {
		return "there is no such command"
	}
	command.InitDefaultHelpFlag()
	for _, word := range words {
		if word == "--" {
			break // the rest is another program's
		}
		name, isFlag := strings.CutPrefix(strings.Split(word, "=")[0], "--")
		if isFlag && command.Flags().Lookup(strings.TrimRight(name, ".,;:)")) == nil {
			return "there is no flag --" + name
		}
	}
	return ""
}

// put writes a file.
func put(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
