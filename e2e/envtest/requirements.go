package main

// The packages that the suites of controller-runtime import, so that go.mod and
// go.sum have them.
import (
	_ "github.com/go-logr/logr/funcr"
	_ "github.com/google/go-cmp/cmp/cmpopts"
	_ "github.com/google/gofuzz"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "github.com/onsi/gomega/gbytes"
	_ "github.com/onsi/gomega/ghttp"
	_ "github.com/onsi/gomega/gstruct"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap/zapcore"
	_ "gomodules.xyz/jsonpatch/v2"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/controller-runtime/pkg/metrics/filters"
)
