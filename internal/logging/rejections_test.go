package logging

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rejected is the line that upstream writes for a rejection
// (k8s.io/apiserver/pkg/admission/plugin/webhook/validating).
func rejected(webhook, message string) string {
	err := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Message: message, Reason: "Denied", Code: http.StatusForbidden}}
	return "W1121 03:21:57.000000 1 dispatcher.go:225] " + fmt.Sprintf("rejected by webhook %q: %#v", webhook, err) + "\n"
}

// TestRejectionsByWebhooks are short lines, one for each that differs.
func TestRejectionsByWebhooks(t *testing.T) {
	webhookRejections = rejections{}
	var out bytes.Buffer
	w := severityWriter{newHandler(&out, Options{}), slog.LevelWarn}
	for _, line := range []string{
		rejected("a.example.com", `no "quotes" here`), rejected("a.example.com", `no "quotes" here`), rejected("b.example.com", `no "quotes" here`),
		rejected("a.example.com", strings.Repeat("long ", 1000)),
		"W1121 03:21:57.000000 1 dispatcher.go:225] rejected by webhook \"c\": something else\n",
	} {
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, want := range []string{
		`INFO  a webhook rejected a request  webhook=a.example.com message="no \"quotes\" here"`, "webhook=b.example.com", "long ...", "WARN  rejected by webhook",
	} {
		if !strings.Contains(lines[i], want) || len(lines[i]) > 320 {
			t.Errorf("line %d is %q", i, lines[i])
		}
	}
}
