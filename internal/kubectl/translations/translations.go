package translations

import (
	"os"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

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
