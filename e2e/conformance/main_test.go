package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

func TestOptionsSelectSpecs(t *testing.T) {
	o, err := parseOptions([]string{"-lists", "generic,optin", "-only", "StorageVersion resources", "-root", "/r"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.lists) != 1 || o.lists[0].Name != specs.OptIn || len(o.lists[0].Specs) != 1 {
		t.Errorf("got %+v, want one spec of %s", o.lists, specs.OptIn)
	}
	if want := filepath.Join("/r", ".bin", "conformance"); o.out != want {
		t.Errorf("the output goes to %s, want %s", o.out, want)
	}
}

func TestOptionsThatSelectNoSpecsAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-lists=none":                "generic",
		"-only=nowhere":              "-only",
		"-only=(":                    "-only",
		"generic":                    "not a flag",
		"-lists=optin -only=Secrets": "optin",
	} {
		_, err := parseOptions(strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", args, err, want)
		}
	}
}

func TestExitCodeWhenNothingRuns(t *testing.T) {
	var errors strings.Builder
	if code := run(t.Context(), []string{"-lists=none"}, io.Discard, &errors); code != exitNotRun || !strings.HasPrefix(errors.String(), "conformance: ") {
		t.Errorf("exit code %d, %q", code, errors.String())
	}
}
