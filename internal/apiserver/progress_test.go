package apiserver

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLongStartLogsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		w := &progress{}
		expect := func(lines int, text string) {
			t.Helper()
			if strings.Count(out.String(), "\n") != lines || !strings.Contains(out.String(), text) {
				t.Errorf("it says: %s", out.String())
			}
		}
		kms := errors.New("an error on the server (\"[+]ping ok\n[-]kms-providers failed: reason withheld\nreadyz check failed\")")
		w.failed(log, kms)
		expect(0, "")
		time.Sleep(logDelay + time.Second)
		w.failed(log, kms)
		w.failed(log, kms)
		expect(1, `"waiting for"=kms-providers`)
		w.failed(log, errors.New("something else"))
		expect(2, "something else")
		w.succeeded()
		if w.reason() != "" {
			t.Errorf("it still waits for %s", w.reason())
		}
	})
}
