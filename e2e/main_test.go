package e2e

import (
	"fmt"
	"os"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// shared is for tests that work in namespaces and API groups of their own.
var shared harness.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
