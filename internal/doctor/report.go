package doctor

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity of a finding.
type Severity string

const (
	// Failure: something does not work, or the next start fails.
	Failure Severity = "failure"
	// Risk: it works now, and may fail later, fail for some users, or is unsafe.
	Risk Severity = "risk"
)

// Finding is a problem and its remedy.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check is the name of the check that found it.
	Check string `json:"check"`
	// Object is a path, a URL, or an object of the API as KIND NAMESPACE/NAME.
	Object  string `json:"object"`
	Problem string `json:"problem"`
	// Remedy says what to do.
	Remedy string `json:"remedy"`
	// Commands carry out the remedy, in this order, in a POSIX shell.
	Commands []string `json:"commands,omitempty"`
}

// Skipped is a check that was not made.
type Skipped struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
}

// Report is the result of the checks of a data directory, of a server, or of both.
type Report struct {
	DataDir string `json:"dataDir,omitempty"`
	Server  string `json:"server,omitempty"`
	// Running reports whether a server has answered.
	Running bool `json:"running"`
	// Stopped: no process uses the data directory.
	Stopped  bool      `json:"stopped,omitempty"`
	Checked  []string  `json:"checked"`
	Skipped  []Skipped `json:"skipped,omitempty"`
	Findings []Finding `json:"findings"`
}

// check runs one check, which calls add for each finding. If the check itself fails, the
// report lists it as skipped with that error.
func (r *Report) check(name string, run func(add func(Finding)) error) {
	err := run(func(f Finding) {
		f.Check = name
		r.Findings = append(r.Findings, f)
	})
	if err != nil {
		r.skip(name, "%v", err)
		return
	}
	r.Checked = append(r.Checked, name)
}

func (r *Report) skip(name, format string, args ...any) {
	r.Skipped = append(r.Skipped, Skipped{name, fmt.Sprintf(format, args...)})
}

// sort puts failures before risks, and otherwise keeps the order of the checks.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
}
