package logs

import (
	"runtime"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// Upstream fact: klog.Fatal calls klog.OsExit last, and holds no lock of klog
//
// Mirrors: k8s.io/klog/v2.loggingT.output k8s.io/klog/v2.OsExit
//   k8s.io/apiserver/pkg/server.runPostStartHook
// Why: a Kubernetes component that fails (a post-start hook, for one) ends the
//   process at once, and etcd in the same process would lose the chance to
//   close its database.
// Gain: the process stops in order, with the failure as its error.
// Breaks: the process ends at once with exit code 255, or hangs when it logs. Tests:
//   TestFatalMessageBecomesTheError.

// OnFatal calls f with the stack of the goroutine after a fatal message of klog,
// instead of ending the process. f starts an orderly stop and returns. The
// goroutine that failed then ends, and its deferred functions run, so that it gives
// back what it has locked with defer. The stop must be bounded in time: a lock
// without a defer stays held. It is a process global.
func OnFatal(f func(stack []byte)) {
	klog.OsExit = func(int) {
		f(debug.Stack())
		runtime.Goexit()
	}
}
