package version

import (
	"runtime"
	"runtime/debug"
	"strings"

	etcdversion "go.etcd.io/etcd/api/v3/version"
)

// release is set at link time (see the Makefile). Without it, [Release] uses the
// build information of the Go toolchain.
var release string

// Release is the program's own version.
func Release() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "v0.0.0-dev"
}

// Commit is the revision that was built and its time, as far as the
// toolchain recorded them.
func Commit() (revision, time string, modified bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", "", false
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value
		case "vcs.time":
			time = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	return revision, time, modified
}

// requiredKubernetes is the version of the Kubernetes modules in go.mod.
const requiredKubernetes = "v1.36.3"

// Kubernetes is the version of the Kubernetes modules in this binary. It
// comes from the build information and so is right for `go run` and
// `go install` too, which cannot stamp the variables that upstream reads. The build information
// of a test's binary lists no modules.
func Kubernetes() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return requiredKubernetes
}

// Etcd is the version of the embedded member.
func Etcd() string { return etcdversion.Version }

// Go is the toolchain that built the program.
func Go() string { return strings.TrimPrefix(runtime.Version(), "go") }
