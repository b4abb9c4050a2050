package harness

import (
	"slices"
	"strings"
)

// slow are parts of lines that are logged on slow machines. A loaded machine
// must not fail a test.
var slow = []string{
	"still starting",              // ours
	"slow openapi aggregation of", // apiextensions-apiserver's
	// etcd's
	"slow fdatasync", "took too long", "overloaded", "request stats", "timed out sending read state",
	"timed out waiting for read index response", "ignored out-of-date read index response",
}

// WithoutSlowness are the lines of a log without those that say that the machine is
// slow.
func WithoutSlowness(log string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(slow, func(part string) bool { return strings.Contains(line, part) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Problems are the warnings and errors in a log without those that say that
// the machine is slow.
func Problems(log string) string {
	var complaints strings.Builder
	for _, line := range WithoutSlowness(log) {
		if strings.Contains(line, "WARN") || strings.Contains(line, "ERROR") {
			complaints.WriteString(line)
		}
	}
	return complaints.String()
}
