package cli

import (
	"io"
	"strings"
	"testing"
)

// TestDurationFlags: each flag for a duration takes days and years, and prints days.
func TestDurationFlags(t *testing.T) {
	for _, line := range []string{
		"status --wait", "run --grace", "certs rotate --overlap", "kubeconfig create --expires",
	} {
		words := strings.Fields(line)
		cmd, _, err := newRoot(io.Discard).Find(words[:len(words)-1])
		if err != nil {
			t.Fatal(err)
		}
		flag := cmd.Flags().Lookup(strings.TrimPrefix(words[len(words)-1], "--"))
		for text, want := range map[string]string{"1y": "365d", "30d": "30d", "36h": "36h0m0s"} {
			if err := flag.Value.Set(text); err != nil || flag.Value.String() != want {
				t.Errorf("%s %s is %s: %v", line, text, flag.Value, err)
			}
		}
		if err := flag.Value.Set("month"); err == nil {
			t.Errorf("%s month is %s", line, flag.Value)
		}
	}
}
