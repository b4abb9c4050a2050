package apiserver

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLongStartLogsWhatItWaitsFor(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	log := slog.New(slog.NewTextHandler(&out, nil))
	w := &progress{now: func() time.Time { return now }}
	lines := func() int { return strings.Count(out.String(), "\n") }
	kms := errors.New("an error on the server (\"[+]ping ok\n[-]kms-providers failed: reason withheld\nreadyz check failed\")")

	w.failed(log, kms)
	if lines() != 0 {
		t.Errorf("it speaks at once: %s", out.String())
	}
	now = now.Add(logDelay + time.Second)
	w.failed(log, kms)
	w.failed(log, kms)
	if lines() != 1 || !strings.Contains(out.String(), `"waiting for"=kms-providers`) {
		t.Errorf("after a while it says: %s", out.String())
	}
	w.failed(log, errors.New("something else"))
	if lines() != 2 || w.reason() != "something else" {
		t.Errorf("after a change it says: %s", out.String())
	}
	now = now.Add(repeatInterval + time.Second)
	w.failed(log, errors.New("something else"))
	if lines() != 3 {
		t.Errorf("it does not say it again: %s", out.String())
	}
	w.succeeded()
	if w.reason() != "" {
		t.Errorf("it still waits for %s", w.reason())
	}
}
