package apiserver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

func TestLongStartLogsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&out, nil)), storage: &storage.Storage{}}
		expect := func(lines int, text string) {
			t.Helper()
			if strings.Count(out.String(), "\n") != lines || !strings.Contains(out.String(), text) {
				t.Errorf("it says: %s", out.String())
			}
		}
		began := time.Now()
		err := s.poll(t.Context(), func(context.Context) error {
			switch since := time.Since(began); {
			case since < logDelay:
				expect(0, "")
			case since > 3*logDelay:
				expect(2, "something else")
				return nil
			case since > 2*logDelay:
				expect(strings.Count(s.WaitsFor(), "else")+1, `"waiting for"=kms-providers`)
				return errors.New("something else")
			}
			return errors.New("an error on the server (\"[+]ping ok\n[-]kms-providers failed: reason withheld\nreadyz check failed\")")
		})
		if err != nil || s.WaitsFor() != "" {
			t.Errorf("it still waits for %s: %v", s.WaitsFor(), err)
		}
	})
}
