package controlplane_test

// `go mod tidy` of a module that imports controlplane looks at the tests of Kubernetes, which
// need this module; k8s.io/kubernetes names a version of it that does not exist. The import
// keeps the version of go.mod.
import _ "k8s.io/cri-api/pkg/errors"
