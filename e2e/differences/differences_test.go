package differences

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	cliflag "k8s.io/component-base/cli/flag"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver/options"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestMissingFlags: the list names each flag of kube-apiserver that this server
// does not have, with a reason, and no other.
func TestMissingFlags(t *testing.T) {
	var generic cliflag.NamedFlagSets
	controlplane.NewOptions().AddFlags(&generic)
	missing := names(kubeapiserver.NewServerRunOptions().Flags()).Difference(names(generic))
	if missing.Len() == 0 {
		t.Fatal("kube-apiserver has no flags of its own: this test compares the wrong things")
	}
	listed := listedFlags(t)
	if unlisted := missing.Difference(sets.KeySet(listed)); unlisted.Len() > 0 {
		t.Errorf("flags that are missing here and not listed: %v", sets.List(unlisted))
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !missing.Has(name) {
			t.Errorf("%s is listed, and kube-apiserver has no such flag of its own", name)
		}
		if listed[name] == "" {
			t.Errorf("%s is listed without a reason", name)
		}
	}
}

func names(sections cliflag.NamedFlagSets) sets.Set[string] {
	list := sets.New[string]()
	for _, section := range sections.FlagSets {
		section.VisitAll(func(f *pflag.Flag) { list.Insert(f.Name) })
	}
	return list
}

// listedFlags maps the flags in rows that begin with "missing" to the reasons.
func listedFlags(t *testing.T) map[string]string {
	t.Helper()
	content := harness.ReadFile(t, filepath.Join(harness.Root(t), "internal", "apiserver", "DIFFERENCES.md"))
	listed := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, isRow := strings.CutPrefix(line, "| missing ")
		if name, reason, ok := strings.Cut(name, "|"); isRow && ok {
			listed[strings.TrimSpace(name)] = strings.TrimSpace(strings.Trim(strings.TrimSpace(reason), "|"))
		}
	}
	return listed
}
