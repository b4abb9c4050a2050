package kube

import (
	"regexp"
	"strings"
)

// Upstream fact: how the health endpoints mark a failed check
//
// Mirrors: k8s.io/apiserver/pkg/server/healthz.handleRootHealth
// Why: the endpoints return text, from which a start takes the names of the
//   checks that it waits for.
// Gain: the log and `status` name what a long start waits for.
// Breaks: they name the whole response of the endpoint. TestFailedChecks fails.

// failedCheck is how the health endpoints mark a check.
var failedCheck = regexp.MustCompile(`\[-\](\S+) failed`)

// FailedChecks returns the names of the failed checks if the error is the response of a
// health endpoint, otherwise the text of the error.
func FailedChecks(err error) string {
	var names []string
	for _, match := range failedCheck.FindAllStringSubmatch(err.Error(), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		return err.Error()
	}
	return strings.Join(names, ", ")
}
