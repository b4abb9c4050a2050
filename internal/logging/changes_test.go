package logging

import "testing"

func TestChanges(t *testing.T) {
	c := &Changes{}
	for i, step := range []struct {
		key, text string
		want      bool
	}{
		{"a", "down", true}, {"a", "down", false}, {"b", "down", true}, {"a", "slow", true}, {"a", "down", true}, {"a", "", true}, {"a", "", false},
	} {
		if got := c.Changed(step.key, step.text); got != step.want {
			t.Errorf("step %d: %q of %s is a change: %t", i, step.text, step.key, got)
		}
	}
	c.Forget("a")
	if _, known := c.Swap("a", "down"); known || !c.Changed("b", "slow") {
		t.Error("forgotten texts are known")
	}
	if c.Forget("a"); c.Changed("b", "slow") || !c.Changed("a", "down") {
		t.Error("another text is forgotten, or the text is known")
	}
}
