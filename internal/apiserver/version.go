package apiserver

import (
	"strings"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"

	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// builtVersion makes /version serve the version of the Kubernetes module that is built
// in, without link-time stamps. kubectl refuses a server whose version it cannot parse.
type builtVersion struct{ compatibility.EffectiveVersion }

// Info implements [compatibility.EffectiveVersion].
func (b builtVersion) Info() *apimachineryversion.Info {
	info := *b.EffectiveVersion.Info()
	info.GitVersion = version.Kubernetes()
	numbers := strings.SplitN(strings.TrimPrefix(info.GitVersion, "v"), ".", 3)
	if len(numbers) == 3 {
		info.Major, info.Minor = numbers[0], numbers[1]
	}
	if revision, time, modified := version.Commit(); revision != "" {
		info.GitCommit, info.BuildDate, info.GitTreeState = revision, time, "clean"
		if modified {
			info.GitTreeState = "dirty"
		}
	}
	return &info
}
