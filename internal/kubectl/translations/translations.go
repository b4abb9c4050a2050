// Package translations loads the translations of kubectl's messages only in a process
// that runs kubectl. Packages of kubectl translate texts when they are initialized, and
// the first text takes 27 ms and 4 MB: half of the initialization of this program.
//
// [i18n.SetLoadTranslationsFunc] must be called before that. Go initializes packages in
// the order of their import paths as soon as their imports are initialized; this one
// imports so little that it comes before those packages, which a test of package cli
// verifies. Otherwise a start would take longer.
package translations

import (
	"os"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

// kubectl is the name of the command and of the program.
const kubectl = "kubectl"

var late bool

// Late reports whether the translations were loaded before this package was initialized.
func Late() bool { return late }

func init() { late = i18n.SetLoadTranslationsFunc(load) != nil }

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
