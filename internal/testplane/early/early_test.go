package early

import (
	"slices"
	"testing"
)

func TestMessage(t *testing.T) {
	args, env := []string{"sh", "", "two words"}, []string{"A=1", "EMPTY=", "KUBECONFIG=/tmp/a b"}
	message := Message("/bin/sh", args, env)
	path, gotArgs, gotEnv, ok := parse(message)
	if !ok || path != "/bin/sh" || !slices.Equal(gotArgs, args) || !slices.Equal(gotEnv, env) {
		t.Errorf("read %q %q %q %t", path, gotArgs, gotEnv, ok)
	}
	for length := range message {
		if _, _, _, ok := parse(message[:length]); ok {
			t.Errorf("%d of %d bytes are taken for a message", length, len(message))
		}
	}
	if _, _, _, ok := parse(append(message, 'x')); ok {
		t.Error("a message that is too long is taken")
	}
}

func TestReleased(t *testing.T) {
	for text, want := range map[string]bool{
		"directory \"/tmp\"\nrelease\n":          true,
		"directory \"/tmp\"\nrelease":            false,
		"directory \"/tmp\"\n":                   false,
		"directory \"/tmp/release\"\ngroup 7\n":  false,
		"directory \"/tmp\"\nrelease\ngroup 7\n": false,
		"":                                       false,
	} {
		if got := released([]byte(text)); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
