package translations

import (
	"os"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

// Upstream fact: kubectl translates texts while its packages are initialized
//
// Mirrors: k8s.io/kubectl/pkg/util/i18n.T
//   k8s.io/kubectl/pkg/util/i18n.SetLoadTranslationsFunc
//   k8s.io/kubectl/pkg/util/i18n.LoadTranslations
// Why: each process has the packages of kubectl, and the first text loads all
//   translations. The function that loads them can be replaced before that only. Go
//   initializes packages in the order of their import paths as soon as their imports
//   are initialized; this one has so few that it comes before those packages.
// Gain: 0.040 s of processor time in each process that does not run kubectl instead of
//   0.052 s (bench, version; trial).
// Breaks: a start takes longer. TestTranslationsAreNotLoaded fails.

// kubectl is the name of the command and of the program.
const kubectl = "kubectl"

var loadedEarlier bool

// LoadedEarlier reports whether the translations were loaded before this package was initialized.
func LoadedEarlier() bool { return loadedEarlier }

func init() { loadedEarlier = i18n.SetLoadTranslationsFunc(load) != nil }

func load() error {
	if !runsKubectl(os.Args) {
		return nil
	}
	return i18n.LoadTranslations(kubectl, nil)
}

// runsKubectl reports whether these are the arguments of a process that runs kubectl:
// the command `kubectl`, or this program under the name kubectl.
func runsKubectl(args []string) bool {
	if len(args) == 0 {
		return false
	}
	name := args[0][strings.LastIndexAny(args[0], `/\`)+1:]
	return strings.TrimSuffix(name, ".exe") == kubectl || len(args) > 1 && args[1] == kubectl
}
