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
		"-lists=none":                        "generic",
		"-only=nowhere":                      "-only",
		"-only=(":                            "-only",
		"generic":                            "not a flag",
		"-lists=optin -only=Secrets":         "optin",
		"-side=k3s":                          "kube-apiserver",
		"-side=kube-apiserver":               "optin", // the lists that are the default
		"-side=kube-apiserver -kubeconfig=f": "-kubeconfig",
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

func TestLineReaderPassesOnTheFirstLine(t *testing.T) {
	line := make(chan string, 2)
	r := &lineReader{line: line}
	for _, part := range []string{"/a", "/b\n/c", "\n"} {
		if n, err := r.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("write %q: %d, %v", part, n, err)
		}
	}
	if got := <-line; got != "/a/b" {
		t.Errorf("got %q, want /a/b", got)
	}
	if len(line) != 0 {
		t.Errorf("a second line was passed on: %q", <-line)
	}
}
