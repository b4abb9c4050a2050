package specs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheListsAreNotShortened(t *testing.T) {
	for name, least := range map[string]int{Generic: 133, OptIn: 7, Kubernetes: 133 + 117} {
		list, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Specs) < least {
			t.Errorf("%s has %d specs, there were %d: a spec that fails is a reason to repair the server", name, len(list.Specs), least)
		}
	}
}

func TestFastIsAPartOfGeneric(t *testing.T) {
	generic, err := Load(Generic)
	if err != nil {
		t.Fatal(err)
	}
	fast, err := Load(Fast)
	if err != nil {
		t.Fatal(err)
	}
	if len(fast.Specs) == 0 {
		t.Error("fast has no specs")
	}
	for _, spec := range fast.Specs {
		if !slices.Contains(generic.Specs, spec) {
			t.Errorf("fast has %q, generic does not", spec)
		}
	}
}

func TestKubernetesContainsGenericOnce(t *testing.T) {
	generic, err := Load(Generic)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Load(Kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, spec := range all.Specs {
		times[spec]++
	}
	for _, spec := range generic.Specs {
		if times[spec] != 1 {
			t.Errorf("kubernetes has %q %d times, want once", spec, times[spec])
		}
	}
	if len(times) != len(all.Specs) {
		t.Errorf("kubernetes has %d specs, %d of them different", len(all.Specs), len(times))
	}
}

func TestLoadKnowsItsLists(t *testing.T) {
	if _, err := Load("slow"); err == nil || !strings.Contains(err.Error(), Generic) {
		t.Errorf("got %v, want an error that names the lists", err)
	}
}

func TestParse(t *testing.T) {
	good, err := parse("f", "# comment\n\nC [sig-a] b [Conformance]\n- [sig-a] c\n")
	if want := []string{"[sig-a] b [Conformance]", "[sig-a] c"}; err != nil || !slices.Equal(good, want) {
		t.Errorf("got %q, %v, want %q", good, err, want)
	}
	for text, want := range map[string]string{
		"- [sig-a] b [Conformance]\n": "f:1:",
		"C [sig-a] b\n":               "f:1:",
		"[sig-a] b\n":                 "f:1:",
		"-\n":                         "f:1:",
		"- a\n- b\n- a\n":             "f:3: line 1",
	} {
		if _, err := parse("f", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want an error that starts with %q", text, err, want)
		}
	}
}

func TestOnly(t *testing.T) {
	list := List{Name: "n", Specs: []string{"a b", "c"}}
	if got := list.Only(regexp.MustCompile("^a")).Specs; !slices.Equal(got, []string{"a b"}) {
		t.Errorf("got %q", got)
	}
}
