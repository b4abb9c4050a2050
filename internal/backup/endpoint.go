package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// ParamPlain is the parameter of a POST to the endpoint that requests, with "true", a backup
// that is not encrypted and has no keys.
const ParamPlain = "plain"

const (
	// maxStreams is the number of backups that are sent at the same time: each has a
	// copy of the database on the disk.
	maxStreams = 2
	// A client must read streamChunk bytes in each chunkTimeout.
	streamChunk  = 1 << 20
	chunkTimeout = time.Minute
)

// Endpoint returns a backup for each POST request. A backup has keys only if it is
// encrypted to the configured recipients: with the keys, a user could impersonate any
// other. It is safe for concurrent use.
type Endpoint struct {
	encryption Encryption
	produce    func(Options) Produce
	log        *slog.Logger
	streams    chan struct{}
	timeout    time.Duration // of a chunk
}

// NewEndpoint returns an endpoint that encrypts backups to the recipients, if any.
func NewEndpoint(recipients []string, produce func(Options) Produce, log *slog.Logger) *Endpoint {
	return &Endpoint{
		encryption: Encryption{Recipients: recipients}, produce: produce, log: log,
		streams: make(chan struct{}, maxStreams), timeout: chunkTimeout,
	}
}

// ServeHTTP implements [http.Handler].
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case e.streams <- struct{}{}:
		defer func() { <-e.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d backups are being sent: try again when one has ended", maxStreams),
			http.StatusTooManyRequests)
		return
	}
	name := "unknown"
	if user, ok := request.UserFrom(r.Context()); ok {
		name = user.GetName()
	}
	plain := len(e.encryption.Recipients) == 0 || r.URL.Query().Get(ParamPlain) == "true"
	encryption, content := e.encryption, "objects and keys, encrypted"
	if plain {
		encryption, content = Encryption{}, "objects; the client adds keys and encrypts, as backup save does"
	}
	log := e.log.With("user", name, "address", r.RemoteAddr, "content", content)
	log.Info("backup requested through the API")
	w.Header().Set("Content-Type", "application/octet-stream")
	body := &pacedWriter{w: w, controller: http.NewResponseController(w), timeout: e.timeout}
	began := time.Now()
	err := deliver(r.Context(), body, encryption, e.produce(Options{Reason: ReasonManual, WithoutKeys: plain}))
	switch {
	case err == nil:
		log.Info("backup sent", "bytes", body.written, "took", time.Since(began).Round(time.Millisecond).String())
	case body.written > 0:
		// The client detects that the backup is truncated.
		log.Warn("sending the backup failed", "error", err)
	default:
		log.Warn("making the backup failed", "error", err)
		code := http.StatusInternalServerError
		if errors.Is(err, datadir.ErrNoSpace) {
			code = http.StatusInsufficientStorage
		}
		http.Error(w, err.Error(), code)
	}
}

func deliver(ctx context.Context, w io.Writer, encryption Encryption, produce Produce) error {
	if len(encryption.Recipients) == 0 {
		return produce(ctx, w)
	}
	_, err := Copy(ctx, w, encryption, produce)
	return err
}

// pacedWriter writes to a client that must read a chunk within each timeout. Otherwise the
// connection is closed.
type pacedWriter struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	timeout    time.Duration
	written    int64
	due        int64 // the number of written bytes at which the deadline is extended
}

// Write implements io.Writer.
func (p *pacedWriter) Write(data []byte) (int, error) {
	if p.written >= p.due {
		if err := p.controller.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
			return 0, fmt.Errorf("set the write deadline: %w", err)
		}
		p.due = p.written + streamChunk
	}
	n, err := p.w.Write(data)
	p.written += int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the client read less than %d bytes in %s: %w", streamChunk, p.timeout, err)
	}
	return n, err
}
