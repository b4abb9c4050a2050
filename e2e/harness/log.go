package harness

import (
	"slices"
	"strings"
)

// slowMachineLines has parts of the lines that are logged on slow machines, which must not fail a
// test.
var slowMachineLines = []string{
	// ours
	"still starting", "the health check failed: the watchdog is not notified", "renewing this server's key in etcd failed, trying again",
	"slow openapi aggregation of",      // apiextensions-apiserver's
	"retrying of unary invoker failed", // of etcd's client
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
func Problems(log string) string { return linesOf(log, "WARN", "ERROR") }

// Errors returns the errors in a log except those about a slow machine.
func Errors(log string) string { return linesOf(log, "ERROR") }

func linesOf(log string, levels ...string) string {
	var found strings.Builder
	for _, line := range WithoutSlowness(log) {
		if slices.ContainsFunc(levels, func(level string) bool { return strings.Contains(line, level) }) {
			found.WriteString(line)
		}
	}
	return found.String()
}
