package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// stackRoom is what the handlers of a request need, more or less.
const stackRoom = 20 << 10

// growStack makes the goroutine's stack large enough for a request at once,
// while there is little on it. A goroutine begins with a few kilobytes, and the
// chain of handlers is so deep that its stack was copied three or four times,
// each time with more frames to adjust: a sixth of the processor time of a
// server that answers small requests. i is any index; it keeps the compiler from
// leaving the room out.
//
//go:noinline
func growStack(i int) byte {
	var room [stackRoom]byte
	return room[uint(i)%stackRoom] // a method can be as long as a header
}

// withRoomyStack is the outermost handler, on a connection's goroutine for the
// request.
func withRoomyStack(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		growStack(len(r.Method))
		handler.ServeHTTP(w, r)
	})
}

// buildHandlerChain is upstream's chain on a roomy stack.
func buildHandlerChain(handler http.Handler, c *genericapiserver.Config) http.Handler {
	return withRoomyStack(genericapiserver.DefaultBuildHandlerChain(handler, c))
}

// roomyAuthenticator comes first on the second goroutine of a request, which
// upstream makes so that the first one can time out
// (filters.WithTimeoutForNonLongRunningRequests).
type roomyAuthenticator struct{ authenticator.Request }

// AuthenticateRequest implements [authenticator.Request].
func (a roomyAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	growStack(len(r.Method))
	return a.Request.AuthenticateRequest(r)
}
