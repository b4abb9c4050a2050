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
	// Risk: all works, but not for long, not for all, or not safely.
	Risk Severity = "risk"
)

// Finding is something that is wrong.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check that has found it, one of those that [Report.Checked] lists.
	Check string `json:"check"`
	// Object is a path, a URL, or an object of the API as KIND NAMESPACE/NAME.
	Object  string `json:"object"`
	Problem string `json:"problem"`
	// Remedy says what to do.
	Remedy string `json:"remedy"`
	// Commands do it, one after the other, in a POSIX shell.
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
	Running  bool      `json:"running"`
	Checked  []string  `json:"checked"`
	Skipped  []Skipped `json:"skipped,omitempty"`
	Findings []Finding `json:"findings"`
}

// check runs one check, which reports what it finds. An error of the check itself is a
// reason to skip it.
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
