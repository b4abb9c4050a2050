package controlplanetest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// Server is a control plane that runs until its test ends.
type Server struct {
	*controlplane.ControlPlane
	// Config is a client configuration with all rights that calls the server in the process.
	Config *rest.Config
}

// Option changes the options of a server.
type Option func(*controlplane.Options)

// WithOptions replaces the options. Log is set unless it is nil.
func WithOptions(options controlplane.Options) Option {
	return func(o *controlplane.Options) {
		log := o.Log
		*o = options
		if o.Log == nil {
			o.Log = log
		}
	}
}

// Start returns a control plane that is ready, or ends the test. It has no data, is stopped when
// the test and its subtests have ended, and its log is shown only if the test fails. Parallel
// tests each have one of their own. The first call silences klog, which Kubernetes components
// write to, for the rest of the process, unless the program has parsed klog's flags: give
// -v=1 -logtostderr to see it.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	if err := silence(); err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	o := controlplane.Options{Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, option := range options {
		option(&o)
	}
	cp, err := controlplane.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Errorf("the control plane failed: %v", err)
		}
		if t.Failed() {
			t.Logf("the log of the control plane:\n%s", log)
		}
	})
	if err := cp.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &Server{ControlPlane: cp, Config: cp.RESTConfig()}
}

// silence discards klog's messages, once.
var silence = sync.OnceValue(func() error {
	if f := flag.Lookup("v"); f != nil && flag.Lookup("logtostderr") != nil {
		return nil // the program has klog's flags
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("stderrthreshold", "FATAL"); err != nil { // errors would also be written to stderr
		return fmt.Errorf("silence klog: %w", err)
	}
	return nil
})

// lockedBuffer is a buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written.
func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
