package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// The parameters of a POST to the endpoint, "true" or "false".
const (
	// ParamWithoutKeys leaves out every file that holds a secret.
	ParamWithoutKeys = "withoutKeys"
	// ParamPlain asks for an archive that is not sealed, and has no keys.
	ParamPlain = "plain"
)

const (
	// maxStreams is how many archives are delivered at once: each has a copy of
	// the database on the disk until it is.
	maxStreams = 2
	// streamChunk is what a client has to take in each streamPatience.
	streamChunk    = 1 << 20
	streamPatience = time.Minute
)

// Endpoint delivers an archive to each POST. An archive has keys only if it is
// sealed to the configured recipients: the right to ask for one is not the
// right to be any user for ever. It is safe for concurrent use.
type Endpoint struct {
	seal     Seal
	produce  func(Options) Produce
	log      *slog.Logger
	streams  chan struct{}
	patience time.Duration
}

// NewEndpoint seals what produce makes to the recipients, if there are any.
func NewEndpoint(recipients []string, produce func(Options) Produce, log *slog.Logger) *Endpoint {
	return &Endpoint{
		seal: Seal{Recipients: recipients}, produce: produce, log: log,
		streams: make(chan struct{}, maxStreams), patience: streamPatience,
	}
}

// EndpointOff answers where the configuration has switched the endpoint off.
func EndpointOff() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "backups through the API are switched off (backup.endpoint: off): stop the server to save one, or set backup.schedule", http.StatusForbidden)
	})
}

// ServeHTTP implements [http.Handler].
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	options, seal, err := e.asked(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case e.streams <- struct{}{}:
		defer func() { <-e.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d backups are being delivered: try again when one has ended", maxStreams), http.StatusTooManyRequests)
		return
	}
	name := "unknown"
	if user, ok := request.UserFrom(r.Context()); ok {
		name = user.GetName()
	}
	log := e.log.With("user", name, "address", r.RemoteAddr, "keys", !options.WithoutKeys, "sealed", len(seal.Recipients) > 0)
	log.Info("a backup is requested through the API")
	w.Header().Set("Content-Type", "application/octet-stream")
	body := &paced{w: w, controller: http.NewResponseController(w), patience: e.patience}
	began := time.Now()
	err = deliver(r.Context(), body, seal, e.produce(options))
	switch {
	case err == nil:
		log.Info("the backup is delivered", "bytes", body.written, "took", time.Since(began).Round(time.Millisecond).String())
	case body.written > 0:
		// What the client has got ends too early, which it notices.
		log.Warn("the backup is not delivered", "error", err)
	default:
		log.Warn("the backup is not made", "error", err)
		code := http.StatusInternalServerError
		if errors.Is(err, datadir.ErrNoSpace) {
			code = http.StatusInsufficientStorage
		}
		http.Error(w, err.Error(), code)
	}
}

// asked reads the parameters.
func (e *Endpoint) asked(r *http.Request) (Options, Seal, error) {
	options, seal := Options{Reason: ReasonManual}, e.seal
	plain := false
	for name, value := range map[string]*bool{ParamWithoutKeys: &options.WithoutKeys, ParamPlain: &plain} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		var err error
		if *value, err = strconv.ParseBool(text); err != nil {
			return options, seal, fmt.Errorf("%s=%q: write true or false", name, text)
		}
	}
	if plain || len(seal.Recipients) == 0 {
		options.WithoutKeys, seal = true, Seal{}
	}
	return options, seal, nil
}

func deliver(ctx context.Context, w io.Writer, seal Seal, produce Produce) error {
	if len(seal.Recipients) == 0 {
		return produce(ctx, w)
	}
	_, err := Copy(ctx, w, seal, produce)
	return err
}

// paced writes to a client that has to take a chunk in each period: one that
// does not is cut off.
type paced struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	patience   time.Duration
	written    int64
	due        int64 // the deadline is moved when so much is written
}

// Write implements io.Writer.
func (p *paced) Write(data []byte) (int, error) {
	if p.written >= p.due {
		if err := p.controller.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
			return 0, fmt.Errorf("bound how long the client may take: %w", err)
		}
		p.due = p.written + streamChunk
	}
	n, err := p.w.Write(data)
	p.written += int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the client took less than %d bytes in %s: %w", streamChunk, p.patience, err)
	}
	return n, err
}
