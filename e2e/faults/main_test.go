package faults

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// count returns how often a test repeats: the number in the environment
// variable, or the default.
func count(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number", variable, text)
	}
	return n
}

// duration returns how long a test runs: the duration in the environment
// variable, or the default.
func duration(t *testing.T, variable string, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q is not a duration", variable, text)
	}
	return d
}

// timedOut reports whether the error is the answer of a server that took too long, as on a slow
// disk.
func timedOut(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || err != nil && strings.Contains(err.Error(), "etcdserver: request timed out")
}

// healthy waits until the server answers the path with 200.
func healthy(t *testing.T, s *harness.Server, path string) {
	t.Helper()
	harness.Eventually(t, path+" says that the server is well", func() error {
		if code, body := get(t, s, path); code != http.StatusOK {
			return errors.New(body)
		}
		return nil
	})
}

// ends waits until a failed server has ended with exit code 1. The last line of
// its log must be an error with all the parts, and the log must have no
// traceback.
func ends(t *testing.T, s *harness.Server, parts ...string) {
	t.Helper()
	if code := s.Wait(); code != 1 {
		t.Errorf("the server ended with exit code %d, want 1:\n%s", code, s.Log())
	}
	lines := strings.Split(strings.TrimSpace(s.Log()), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "error: ") || strings.Contains(s.Log(), "goroutine ") {
		t.Errorf("want one line of error at the end:\n%s", s.Log())
	}
	harness.Contains(t, last, parts...)
}
