package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestStopWithAHangingWebhook: a stop does not wait for a call that hangs. The
// client gets an error, and the stop is orderly.
func TestStopWithAHangingWebhook(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, "serving: {stopGrace: 100ms}\n"))
	webhook := newHeldWebhook(t)
	webhook.hold(t, s, "default")
	webhook.await(t, s, "default")
	answer := make(chan string)
	go func() {
		out, err := s.TryKubectl("", "create", "configmap", "held", "-n", "default")
		answer <- fmt.Sprint(out, err)
	}()
	<-webhook.arrived
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	if out := <-answer; !strings.Contains(strings.ToLower(out), "error") {
		t.Errorf("the client gets no error: %s", out)
	}
}

// TestStopWithAnIncompleteRequest: a client without credentials that does not send all of a body
// gets its answer, and the connection is closed.
func TestStopWithAnIncompleteRequest(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	address := strings.TrimPrefix(s.RESTConfig().Host, "https://")
	for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/livez", "/nothing"} {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // it does not send anything secret
		if err != nil {
			t.Fatal(err)
		}
		_ = connection.SetDeadline(time.Now().Add(harness.Patience)) // never fails on an open one
		if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n{", path); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(connection) // until it is closed
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
			t.Errorf("%s: %v: %q", path, err, answer)
		}
		_ = connection.Close() // it is closed already
	}
}
