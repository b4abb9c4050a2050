package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
)

// TestVersionsAreATable: versions come as lines of a table, many at a time.
func TestVersionsAreATable(t *testing.T) {
	versions := []history.Version{
		{Chain: 1, Revision: 5, Time: time.Unix(1, 0).UTC(), Change: history.Created, Manager: "kubectl <x>", SizeBytes: 7},
		{Chain: 1, Revision: 6, Time: time.Unix(2, 0).UTC(), Change: history.Deleted},
	}
	var stopped bool
	var table strings.Builder
	printer := newVersionPrinter(&firstWrite{to: &table, before: func() { stopped = true }}, "text")
	for range alignedVersions {
		if stopped {
			t.Fatal("lines are written one by one")
		}
		if err := printer.print(versions[0]); err != nil {
			t.Fatal(err)
		}
	}
	if !stopped {
		t.Error("the lines are kept until the end")
	}
	if err := printer.end(); err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(table.String()))
	if len(lines) != alignedVersions+1 || !strings.HasPrefix(lines[0], "REVISION") || !strings.Contains(lines[1], "created  kubectl <x>  7 B") {
		t.Errorf("%d lines, the first are %q", len(lines), lines[:2])
	}
}
