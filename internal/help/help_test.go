package help

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTopics(t *testing.T) {
	topics := Topics()
	if len(topics) < 14 {
		t.Fatalf("there are %d topics", len(topics))
	}
	for _, topic := range topics {
		t.Run(topic.Name, func(t *testing.T) {
			if !strings.HasPrefix(topic.Markdown, "# "+topic.Title+"\n\n") || topic.Title == "" {
				t.Errorf("the text does not begin with a title and an empty line")
			}
			if len(topic.Title) > 100 {
				t.Errorf("the title has %d characters", len(topic.Title))
			}
			inCode := false
			for line := range strings.Lines(topic.Markdown) {
				line = strings.TrimSuffix(line, "\n")
				if strings.HasPrefix(line, "```") {
					inCode = !inCode
				}
				if !inCode && len([]rune(line)) > 88 {
					t.Errorf("a line has %d characters: %s", len([]rune(line)), line)
				}
				if !inCode && !strings.HasPrefix(line, "```") && strings.Count(line, "`")%2 != 0 {
					t.Errorf("code spans lines, which a terminal shows with its quotes: %s", line)
				}
			}
			if inCode {
				t.Error("a code block has no end")
			}
			page := string(topic.Manual("kube-hyper-mini v1"))
			for _, want := range []string{".TH", "NAME", "kube-hyper-mini-" + topic.Name, "DESCRIPTION", "kube-hyper-mini v1"} {
				if !strings.Contains(strings.ReplaceAll(page, `\-`, "-"), want) {
					t.Errorf("the manual page lacks %q", want)
				}
			}
			if text := Terminal(topic.Markdown, false); strings.Contains(text, "```") || strings.Contains(text, "\x1b") || strings.Contains(text, "**") {
				t.Errorf("the plain text has markup or escape sequences:\n%s", text)
			}
			if text := Terminal(topic.Markdown, true); !strings.HasPrefix(text, bold+topic.Title+plain) {
				t.Errorf("the title is not bold:\n%s", text)
			}
		})
	}
	if _, found := Find(topics, "backup"); !found {
		t.Error("there is no topic backup")
	}
	if topic, found := Find(topics, "archive"); !found || topic.Name != "journal" {
		t.Error("the former name of the topic journal is not found")
	}
	if _, found := Find(topics, "nonsense"); found {
		t.Error("there is a topic nonsense")
	}
}

// TestMemoryLimitsFollowTheSizes: the manifests have the limit that the topic gives for
// 10,000 CRDs and 100,000 objects.
func TestMemoryLimitsFollowTheSizes(t *testing.T) {
	sizing, _ := Find(Topics(), "sizing")
	words := strings.Join(strings.Fields(sizing.Markdown), " ")
	if limit := "3 GiB for 10,000 CRDs and 100,000 objects"; !strings.Contains(words, limit) {
		t.Errorf("the topic does not say %q", limit)
	}
	for _, file := range []string{"embedded/statefulset.yaml", "external/deployment.yaml"} {
		manifest, err := os.ReadFile(filepath.Join("..", "..", "packaging", "kubernetes", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(manifest), "limits: {memory: 3Gi}") {
			t.Errorf("%s has another limit", file)
		}
	}
}

func TestTerminal(t *testing.T) {
	const text = "# Title\n\nA **bold** word and `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\nrun `this`\n\nthat\n```\n"
	for name, c := range map[string]struct {
		style bool
		want  string
	}{
		"plain":  {false, "Title\n\nA bold word and code.\n\n| a | b |\n ─── ───\n| 1 | 2 |\n\n    run `this`\n\n    that\n"},
		"styled": {true, "\x1b[1mTitle\x1b[0m\n\nA \x1b[1mbold\x1b[0m word and \x1b[1mcode\x1b[0m.\n\n| a | b |\n ─── ───\n| 1 | 2 |\n\n    run `this`\n\n    that\n"},
	} {
		if got := Terminal(text, c.style); strings.ReplaceAll(got, " \n", "\n") != c.want {
			t.Errorf("%s: got\n%q, want\n%q", name, got, c.want)
		}
	}
}
