package apiserver

import (
	"fmt"
	"maps"
	"sync"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// processGates are the feature gates of the process, which all of its servers share
// (k8s.io/apiserver/pkg/util/feature). It is locked while options are made: upstream keeps
// what it reads from flags in a registry of the process.
var processGates struct {
	sync.Mutex
	set map[string]bool // nil before the first SetFeatureGates
}

// SetFeatureGates returns an error if a gate is not known, or if an earlier call was for
// others. A process with several servers calls it before [NewOptions] for each.
func SetFeatureGates(configured map[string]bool) error {
	processGates.Lock()
	defer processGates.Unlock()
	wanted := featureGates(configured)
	problem := func(err error) error { return &config.FieldError{Path: "apiServer.featureGates", Message: err.Error()} }
	if processGates.set == nil {
		// A gate that is wrong would stay in the registry.
		if err := utilfeature.DefaultMutableFeatureGate.DeepCopy().SetFromMap(wanted); err != nil {
			return problem(err)
		}
		processGates.set = wanted
		return nil
	}
	if !maps.Equal(processGates.set, wanted) {
		return problem(fmt.Errorf("differ from those of the first server of this process (%s): feature gates are global "+
			"in a process; run the server in a process of its own", pairs(processGates.set)))
	}
	return nil
}
