package kubectl

import (
	"context"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// Upstream fact: the clients of kubectl log each failed request, with the text of its error
//
// Mirrors: k8s.io/client-go/discovery/cached/memory.memCacheClient.refreshLocked
//   k8s.io/apimachinery/pkg/util/runtime.ErrorHandlers
//   k8s.io/apimachinery/pkg/util/runtime.handleError
//   k8s.io/apimachinery/pkg/util/runtime.logError
// Why: kubectl prints the error once at its end. The client of discovery has logged it for
//   each attempt by then. The logged errors do not wrap that of the request.
// Gain: one line says why there is no server, not five.
// Breaks: there are more lines. Tests: TestDemoteErrors, TestKubectlSubcommand.

// DemoteErrors has errors whose text contains that of cause logged at verbosity 1 (kubectl
// -v=1), not as errors. It changes globals of the process: call it once, before clients are
// made.
func DemoteErrors(cause error) {
	for i, handle := range utilruntime.ErrorHandlers {
		utilruntime.ErrorHandlers[i] = func(ctx context.Context, err error, message string, values ...any) {
			switch {
			case err == nil || !strings.Contains(err.Error(), cause.Error()):
				handle(ctx, err, message, values...)
			case i == 0: // once
				klog.FromContext(ctx).V(1).Info(message, append([]any{"err", err}, values...)...)
			}
		}
	}
}
