package logs

import "strings"

// Upstream fact: the messages with which clients log bodies
//
// Mirrors: k8s.io/client-go/rest.logBody
// Why: from verbosity 9 the server's own clients log what they send and receive. Among it are
//   the Secrets of a namespace that is deleted.
// Gain: no Secret is in the log at any verbosity.
// Breaks: Secrets are in the log at verbosity 9. Tests: TestBodiesAreNotLogged.

// WithoutBody returns a message of klog without the body of a request or a response in it.
func WithoutBody(text string) string {
	for _, prefix := range []string{`"Request Body"`, `"Response Body"`} {
		if strings.HasPrefix(text, prefix) {
			return prefix + " (not logged: it may have secrets)"
		}
	}
	return text
}
