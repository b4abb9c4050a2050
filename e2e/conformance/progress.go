package main

import (
	"bytes"
	"fmt"
	"io"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

// progressStep is after how many specs a line is printed.
const progressStep = 20

// specDone is what Ginkgo prints for every spec that it ran.
var specDone = []byte("•")

// progress counts the specs in Ginkgo's output. The count is for people: the
// results come from Ginkgo's report.
type progress struct {
	out  io.Writer
	list specs.List
	done int
	// half is the beginning of a specDone that the next write ends.
	half []byte
}

// Write implements [io.Writer].
func (p *progress) Write(output []byte) (int, error) {
	text := append(p.half, output...)
	for range bytes.Count(text, specDone) {
		p.done++
		if p.done%progressStep == 0 {
			fmt.Fprintf(p.out, "%s: %d of %d specs have run\n", p.list.Name, p.done, len(p.list.Specs))
		}
	}
	p.half = nil
	for length := len(specDone) - 1; length > 0; length-- {
		if bytes.HasSuffix(text, specDone[:length]) {
			p.half = bytes.Clone(specDone[:length])
			break
		}
	}
	return len(output), nil
}
