package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

// results has one report for each listed spec, and those of failed parts of
// the suite that are no spec.
type results struct {
	specs []types.SpecReport
	suite []types.SpecReport
	total types.Report
}

// add takes from Ginkgo's report what the list requests.
func (r *results) add(list specs.List, report *types.Report) {
	byName := map[string]types.SpecReport{}
	for _, spec := range report.SpecReports {
		switch {
		case spec.LeafNodeType.Is(types.NodeTypeIt):
			byName[spec.FullText()] = spec
		case spec.Failed():
			r.suite = append(r.suite, spec)
		}
	}
	for _, name := range list.Specs {
		r.specs = append(r.specs, listed(name, byName))
	}
	r.total.SuiteDescription = report.SuiteDescription
	r.total.RunTime += report.RunTime
	if r.total.StartTime.IsZero() {
		r.total.StartTime = report.StartTime
	}
	r.total.EndTime = report.EndTime
}

// addFault adds the error beside the specs.
func (r *results) addFault(list specs.List, err error) {
	r.suite = append(r.suite, types.SpecReport{
		LeafNodeType: types.NodeTypeAfterSuite,
		LeafNodeText: list.Name,
		State:        types.SpecStateFailed,
		Failure:      types.Failure{Message: err.Error()},
	})
}

// listed is the spec's report; what is listed and did not run has failed.
func listed(name string, reports map[string]types.SpecReport) types.SpecReport {
	spec, found := reports[name]
	reason := ""
	switch {
	case !found:
		spec = types.SpecReport{LeafNodeType: types.NodeTypeIt, LeafNodeText: name}
		reason = "the suite has no such spec"
	case spec.State.Is(types.SpecStatePassed) || spec.Failed():
		return spec
	default:
		reason = fmt.Sprintf("it did not run (%s) %s", spec.State, spec.Failure.Message)
	}
	spec.State = types.SpecStateFailed
	spec.Failure.Message, spec.Failure.FailureNodeType = strings.TrimSpace(reason), types.NodeTypeIt
	return spec
}

// failures are the specs that failed.
func (r *results) failures() []types.SpecReport {
	var failed []types.SpecReport
	for _, spec := range r.specs {
		if !spec.State.Is(types.SpecStatePassed) {
			failed = append(failed, spec)
		}
	}
	return failed
}

// passed reports whether all is well, the parts that are no spec included.
func (r *results) passed() bool { return len(r.failures()) == 0 && len(r.suite) == 0 }

// reasonLines is how much of a reason is printed; the log has all of it.
const reasonLines = 12

// print writes the failures with their reasons, and the result as the last
// line.
func (r *results) print(w io.Writer) {
	failed := r.failures()
	for _, spec := range append(failed, r.suite...) {
		name := spec.FullText()
		if !spec.LeafNodeType.Is(types.NodeTypeIt) {
			name = "suite: " + strings.TrimSpace(spec.LeafNodeType.String()+" "+spec.LeafNodeText)
		}
		fmt.Fprintf(w, "\nFAILED %s\n", name)
		reason := strings.TrimSpace(spec.Failure.Message + " " + spec.Failure.ForwardedPanic)
		lines := strings.Split(reason, "\n")
		if len(lines) > reasonLines {
			lines = append(lines[:reasonLines], "...")
		}
		for _, line := range lines {
			fmt.Fprintf(w, "    %s\n", line)
		}
		if location := spec.Failure.Location; location.FileName != "" {
			fmt.Fprintf(w, "    at %s\n", location)
		}
	}
	suite := ""
	if len(r.suite) > 0 {
		suite = fmt.Sprintf(", and the suite failed %d times", len(r.suite))
	}
	fmt.Fprintf(w, "conformance: %d passed, %d failed of %d%s\n", len(r.specs)-len(failed), len(failed), len(r.specs), suite)
}

// writeJUnit writes all results as one JUnit suite.
func (r *results) writeJUnit(file string) error {
	report := r.total
	report.SuiteSucceeded = r.passed()
	report.SpecReports = append(append(types.SpecReports{}, r.specs...), r.suite...)
	err := reporters.GenerateJUnitReportWithConfig(report, file, reporters.JunitReportConfig{
		OmitTimelinesForSpecState: types.SpecStatePassed,
		OmitSpecLabels:            true,
		OmitLeafNodeType:          true,
	})
	if err != nil {
		return fmt.Errorf("write the JUnit results: %w", err)
	}
	return nil
}
