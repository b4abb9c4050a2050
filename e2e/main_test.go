package e2e

import (
	"os"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// shared is for tests that work in namespaces and API groups of their own.
var shared harness.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }
