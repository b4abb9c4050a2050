package config

import "os"

// Manifests names objects that are applied at each start and on change.
type Manifests struct {
	// Dir has YAML files; empty means none.
	Dir string `json:"dir"`
	// Prune removes objects whose manifests are gone from Dir.
	Prune bool `json:"prune"`
	// WaitForReady holds readiness back until those that can be applied have been
	// applied once.
	WaitForReady bool `json:"waitForReady"`
	// Required holds readiness back until all have been applied once.
	Required bool `json:"required"`
}

func (m *Manifests) validate(fail func(path, format string, args ...any)) {
	if m.Required && (m.Dir == "" || !m.WaitForReady) {
		fail("manifests.required", "needs manifests.dir and manifests.waitForReady: readiness waits for nothing without them")
	}
	if m.Dir == "" {
		if m.Prune {
			fail("manifests.prune", "needs manifests.dir: there is nothing to compare with")
		}
		return
	}
	if info, err := os.Stat(m.Dir); err != nil {
		fail("manifests.dir", "%v", err)
	} else if !info.IsDir() {
		fail("manifests.dir", "%s is not a directory", m.Dir)
	}
}
