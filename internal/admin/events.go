package admin

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// Events writes Kubernetes events about the server itself. The involved object is the
// namespace kube-system, which every configuration has. The events are in the namespace
// default, as all events of cluster-scoped objects. The zero value keeps the first ones
// until Serve. Its methods never block and are safe for concurrent use.
type Events struct {
	mu          sync.Mutex
	sink        record.EventSink // nil until the API is served
	recorder    record.EventRecorder
	broadcaster record.EventBroadcaster // made for the first event: most servers have none
	early       []func()
}

// maxEarly bounds the events that wait for Serve.
const maxEarly = 10

// Serve writes the events with config, those so far included. Call it only if the API serves
// events.
func (e *Events) Serve(config *rest.Config) error {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the client for events: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sink = &typedcorev1.EventSinkImpl{Interface: client.Events(metav1.NamespaceAll)}
	for _, event := range e.early {
		event()
	}
	e.early = nil
	return nil
}

// Record is a [logging.EventFunc].
func (e *Events) Record(kind, reason, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	event := func() {
		if e.broadcaster == nil {
			e.broadcaster = record.NewBroadcaster()
			e.broadcaster.StartRecordingToSink(e.sink)
			e.recorder = e.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kube-hyper-mini"})
		}
		subject := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceSystem}
		e.recorder.Eventf(subject, kind, reason, format, args...)
	}
	switch {
	case e.sink != nil:
		event()
	case len(e.early) < maxEarly:
		e.early = append(e.early, event)
	}
}

// Stop ends the recording; events that are not yet written are lost.
func (e *Events) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sink = nil
	if e.broadcaster != nil {
		e.broadcaster.Shutdown()
	}
}
