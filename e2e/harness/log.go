package harness

import (
	"slices"
	"strings"
)

// slowMachineLines has parts of the lines that are logged on slow machines, which must not fail a
// test.
var slowMachineLines = []string{
	"still starting",              // ours
	"slow openapi aggregation of", // apiextensions-apiserver's
	// etcd's
	"slow fdatasync", "took too long", "overloaded", "request stats", "timed out sending read state",
	"timed out waiting for read index response", "ignored out-of-date read index response",
}

// WithoutSlowness returns the lines of a log except those about a slow machine.
func WithoutSlowness(log string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(slowMachineLines, func(part string) bool { return strings.Contains(line, part) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Problems returns the warnings and errors in a log except those about a slow machine.
func Problems(log string) string {
	var complaints strings.Builder
	for _, line := range WithoutSlowness(log) {
		if strings.Contains(line, "WARN") || strings.Contains(line, "ERROR") {
			complaints.WriteString(line)
		}
	}
	return complaints.String()
}
