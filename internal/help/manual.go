package help

import (
	"fmt"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// Section is the section of the manual that topics are in (overviews and
// conventions); commands are in section 1.
const Section = "7"

// ManualFile is the name of the topic's manual page.
func (t Topic) ManualFile() string {
	return fmt.Sprintf("kube-hyper-mini-%s.%s", t.Name, Section)
}

// Manual returns the topic as a manual page. source is what the page's footer
// names, as the program with its version.
func (t Topic) Manual(source string) []byte {
	_, text, _ := strings.Cut(t.Markdown, "\n")
	head := fmt.Sprintf("%% \"KUBE-HYPER-MINI-%s\" \"%s\" \"\" \"%s\" \"kube-hyper-mini\"\n\n"+
		"# NAME\n\nkube-hyper-mini-%s - %s\n\n# DESCRIPTION\n",
		strings.ToUpper(t.Name), Section, source, t.Name, t.Title)
	return md2man.Render([]byte(head + text))
}
