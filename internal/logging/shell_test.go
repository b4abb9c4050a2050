package logging

import "testing"

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"/var/lib/kube-hyper-mini": "/var/lib/kube-hyper-mini",
		"/home/jürgen/daten":       "/home/jürgen/daten",
		"/tmp/a b":                 "'/tmp/a b'",
		"it's":                     `'it'\''s'`,
		"$HOME":                    "'$HOME'",
		"~/x":                      "'~/x'",
		`C:\data`:                  `'C:\data'`,
		"":                         "''",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("%q becomes %s, want %s", word, got, want)
		}
	}
}
