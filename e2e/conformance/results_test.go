package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

func spec(name string, state types.SpecState, message string) types.SpecReport {
	return types.SpecReport{LeafNodeType: types.NodeTypeIt, ContainerHierarchyTexts: []string{"[sig-a]"}, LeafNodeText: name, State: state,
		Failure: types.Failure{Message: message}}
}

func TestPassedSpecs(t *testing.T) {
	list := specs.List{Name: "l", Specs: []string{"[sig-a] passes", "[sig-a] fails", "[sig-a] is skipped", "[sig-a] is pending", "[sig-a] is gone"}}
	report := &types.Report{SpecReports: types.SpecReports{
		spec("passes", types.SpecStatePassed, ""),
		spec("fails", types.SpecStateFailed, "one\ntwo"),
		spec("is skipped", types.SpecStateSkipped, "no nodes"),
		spec("is pending", types.SpecStatePending, ""),
		spec("is not listed", types.SpecStateFailed, "not ours"),
	}}
	r := &results{}
	r.add(list, report)
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{
		"FAILED [sig-a] fails\n    one\n    two\n",
		"FAILED [sig-a] is skipped\n    it did not run (skipped) no nodes\n",
		"FAILED [sig-a] is pending\n    it did not run (pending)\n",
		"FAILED [sig-a] is gone\n    the suite has no such spec\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if want := "\nconformance: 1 passed, 4 failed of 5\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("the last line is not %q:\n%s", want, out.String())
	}
	if strings.Contains(out.String(), "not ours") || r.passed() {
		t.Errorf("passed: %t\n%s", r.passed(), out.String())
	}
}

func TestAllPassed(t *testing.T) {
	r := &results{}
	r.add(specs.List{Specs: []string{"[sig-a] passes"}}, &types.Report{SpecReports: types.SpecReports{spec("passes", types.SpecStatePassed, "")}})
	var out strings.Builder
	r.print(&out)
	if !r.passed() || out.String() != "conformance: 1 passed, 0 failed of 1\n" {
		t.Errorf("passed: %t\n%s", r.passed(), out.String())
	}
}

func TestFailureOutsideOfSpecsIsAFailure(t *testing.T) {
	list := specs.List{Name: "l", Specs: []string{"[sig-a] passes"}}
	for name, add := range map[string]func(*results){
		"suite: ReportAfterSuite Invariants\n    broken": func(r *results) {
			node := types.SpecReport{LeafNodeType: types.NodeTypeReportAfterSuite, LeafNodeText: "Invariants", State: types.SpecStateFailed, Failure: types.Failure{Message: "broken"}}
			r.add(list, &types.Report{SpecReports: types.SpecReports{spec("passes", types.SpecStatePassed, ""), node}})
		},
		"suite: AfterSuite l\n    the server is gone": func(r *results) {
			r.add(list, &types.Report{SpecReports: types.SpecReports{spec("passes", types.SpecStatePassed, "")}})
			r.addFault(list, errors.New("the server is gone"))
		},
	} {
		r := &results{}
		add(r)
		var out strings.Builder
		r.print(&out)
		if r.passed() || !strings.Contains(out.String(), name) || !strings.HasSuffix(out.String(), "1 passed, 0 failed of 1, and the suite failed 1 times\n") {
			t.Errorf("want %q in:\n%s", name, out.String())
		}
	}
}

func TestJUnitHasTheListedSpecs(t *testing.T) {
	r := &results{}
	r.add(specs.List{Specs: []string{"[sig-a] passes", "[sig-a] is gone"}}, &types.Report{SpecReports: types.SpecReports{
		spec("passes", types.SpecStatePassed, ""), spec("is not listed", types.SpecStatePassed, "")}})
	file := filepath.Join(t.TempDir(), "junit.xml")
	if err := r.writeJUnit(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<testcase name="[sig-a] passes"`, `<testcase name="[sig-a] is gone"`, `failures="1"`, `message="the suite has no such spec"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "is not listed") {
		t.Errorf("a spec that is not listed is in:\n%s", text)
	}
}
