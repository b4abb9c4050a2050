package apiserver

import (
	"io"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// bodySlack is the time after the timeout of a request in which the rest of its body may
// still come.
const bodySlack = time.Second

// commandBodyTimeout bounds the time in which the body of a command's request comes.
const commandBodyTimeout = 30 * time.Second

// refusedBodyTimeout bounds the time in which a client that is refused, before the request reaches
// its handler, sends the rest of the body, which net/http reads.
const refusedBodyTimeout = 2 * time.Second

// endRefusedBodies wraps the whole handler chain. endBodies, inside of it, replaces the deadline.
func endRefusedBodies(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && r.ContentLength != 0 {
			setReadDeadline(w, time.Now().Add(refusedBodyTimeout))
		}
		chain.ServeHTTP(w, r)
	})
}

// setReadDeadline fails for requests from within the process. net/http resets deadlines for the
// next request of a connection.
func setReadDeadline(w http.ResponseWriter, end time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(end)
}

// endBodies bounds the time in which a client sends the body of a request by the timeout of the
// request. Otherwise the connection stays open after the request was answered with 504, until
// the body is complete. A command's request has no timeout, and its body commandTimeout.
func endBodies(next http.Handler, commandTimeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, known := request.RequestInfoFrom(r.Context())
		if !known || r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		end := time.Time{} // none
		switch deadline, bounded := r.Context().Deadline(); {
		case bounded && !longRunning(r, info):
			end = deadline.Add(bodySlack)
		case isCommand(r, info):
			end = time.Now().Add(commandTimeout)
			r = r.WithContext(r.Context()) // a copy
			r.Body = &commandBody{r.Body, w}
		}
		setReadDeadline(w, end)
		next.ServeHTTP(w, r)
	})
}

// commandBody ends the deadline of a connection at the end of the body: the deadline would end
// the context of the request, which may take long.
type commandBody struct {
	io.ReadCloser
	response http.ResponseWriter
}

// Read implements [io.Reader].
func (b *commandBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		setReadDeadline(b.response, time.Time{})
	}
	return n, err
}
