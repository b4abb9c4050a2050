package logs

import (
	"regexp"
	"strconv"
	"strings"
)

// Upstream fact: the text of a request's rejection by a webhook
//
// Mirrors: k8s.io/apiserver/pkg/admission/plugin/webhook/validating.validatingDispatcher.Dispatch
// Why: each rejection is a warning with the Status as a Go value, about 700
//   bytes; a namespace whose deletion a webhook rejects writes one every 5 s.
// Gain: one short line for each rejection that differs.
// Breaks: the rejection shows as the warning that it was. Tests:
//   TestRejectionsByWebhooks.

var webhookRejection = regexp.MustCompile(`^rejected by webhook ("(?:[^"\\]|\\.)*"): &errors\.StatusError\{`)

// WebhookRejection parses the message about a request that a webhook has rejected: the
// webhook's name, and the message that the client got.
func WebhookRejection(text string) (webhook, message string, ok bool) {
	match := webhookRejection.FindStringSubmatch(text)
	if match == nil {
		return "", "", false
	}
	webhook, err := strconv.Unquote(match[1])
	if err != nil {
		return "", "", false
	}
	_, rest, found := strings.Cut(text, "Message:")
	quoted, err := strconv.QuotedPrefix(rest)
	if !found || err != nil {
		return "", "", false
	}
	message, err = strconv.Unquote(quoted)
	return webhook, message, err == nil
}
