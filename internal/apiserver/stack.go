package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// stackSize is about what the handlers of a small request need.
const stackSize = 20 << 10

// growStack grows the stack of the calling goroutine at once, while little is on it. A
// goroutine begins with a few kilobytes, and the runtime doubles its stack whenever that is
// full: it copies the stack and corrects each frame. The handlers of a request are so
// deeply nested that this took 13 % of the processor time of reads: see the table of
// optimisations in ARCHITECTURE.md. A stack keeps its size until the next collection of
// garbage. i may be any number; it keeps the compiler from removing the array.
//
//go:noinline
func growStack(i int) byte {
	var array [stackSize]byte
	return array[uint(i)%stackSize]
}

// growStacks grows the stack of the goroutine that the server of HTTP/2 makes for a request.
func growStacks(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		growStack(len(r.Method))
		handler.ServeHTTP(w, r)
	})
}

// stackGrower grows the stack of the second goroutine of a request, which
// filters.WithTimeoutForNonLongRunningRequests of k8s.io/apiserver makes: authentication is
// among the first steps in it.
type stackGrower struct{ authenticator.Request }

// AuthenticateRequest implements [authenticator.Request].
func (g stackGrower) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	growStack(len(r.Method))
	return g.Request.AuthenticateRequest(r)
}
