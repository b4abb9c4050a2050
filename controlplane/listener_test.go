package controlplane_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// TestListenerThatFails: a listener that the program closes ends its control plane with an
// error, and neither the process nor its other control planes.
func TestListenerThatFails(t *testing.T) {
	other := start(t, controlplane.Options{})
	for name, closeBefore := range map[string]bool{"before the start": true, "while it runs": false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cp, err := controlplane.New(controlplane.Options{Listener: listener, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if closeBefore {
			_ = listener.Close()
			err = cp.Start(t.Context())
		} else {
			if err := cp.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = listener.Close()
			<-cp.Done()
			err = cp.Err()
		}
		if err == nil || !strings.Contains(err.Error(), "the listener "+listener.Addr().String()) {
			t.Errorf("closed %s, the control plane ended with %v", name, err)
		}
		if err := cp.Stop(context.Background()); err == nil {
			t.Errorf("closed %s: Stop returned no error", name)
		}
	}
	namespaces := kubernetes.NewForConfigOrDie(other.RESTConfig()).CoreV1().Namespaces()
	if _, err := namespaces.Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the other control plane: %v", err)
	}
}

// countingListener counts the calls of Close.
type countingListener struct {
	net.Listener
	closed *atomic.Int32
}

func (c countingListener) Close() error {
	c.closed.Add(1)
	return c.Listener.Close()
}

// TestListenerIsClosed: the listener is closed once however the control plane ends, so that
// clients do not wait for it.
func TestListenerIsClosed(t *testing.T) {
	used := t.TempDir()
	start(t, controlplane.Options{Dir: used})
	for name, c := range map[string]struct {
		dir   string
		start bool
		fails string
	}{
		"start and stop":           {t.TempDir(), true, ""},
		"stop without a start":     {t.TempDir(), false, ""},
		"a start that fails early": {used, true, "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			counting := countingListener{listener, new(atomic.Int32)}
			cp, err := controlplane.New(controlplane.Options{Dir: c.dir, Listener: counting})
			if err != nil {
				t.Fatal(err)
			}
			if c.start {
				err = cp.Start(t.Context())
			}
			if c.fails == "" {
				err = errors.Join(err, cp.Stop(context.Background()), cp.Stop(context.Background()))
			}
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || !strings.Contains(err.Error(), "(Options.Dir)")) {
				t.Errorf("it ended with %v, want %q", err, c.fails)
			}
			if connection, err := net.Dial("tcp", listener.Addr().String()); err == nil {
				_ = connection.Close() // nothing was sent
				t.Error("a client could connect")
			}
			if n := counting.closed.Load(); n != 1 {
				t.Errorf("the listener was closed %d times", n)
			}
			if err := cp.Start(t.Context()); err == nil {
				t.Error("it could be started again")
			}
		})
	}
}
