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
		// Deadlines fail for requests from within the process. net/http resets them for the
		// next request.
		connection, end := http.NewResponseController(w), time.Time{}
		switch deadline, bounded := r.Context().Deadline(); {
		case bounded && !longRunning(r, info):
			end = deadline.Add(bodySlack)
		case isCommand(r, info):
			end = time.Now().Add(commandTimeout)
			r = r.WithContext(r.Context()) // a copy
			r.Body = &commandBody{r.Body, connection}
		}
		if !end.IsZero() {
			_ = connection.SetReadDeadline(end)
		}
		next.ServeHTTP(w, r)
	})
}

// commandBody ends the deadline of a connection at the end of the body: the deadline would end
// the context of the request, which may take long.
type commandBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

// Read implements [io.Reader].
func (b *commandBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}
