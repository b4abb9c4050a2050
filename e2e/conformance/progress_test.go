package main

import (
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

// TestProgressCountsAcrossWrites cuts the output at every byte.
func TestProgressCountsAcrossWrites(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out, list: specs.List{Name: "l", Specs: make([]string, 42)}}
	for _, b := range []byte("Running\n" + strings.Repeat("•", 19) + " [FAILED]\n" + strings.Repeat("• ", 21)) {
		if n, err := p.Write([]byte{b}); n != 1 || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
	}
	if want := "l: 20 of 42 specs have run\nl: 40 of 42 specs have run\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
