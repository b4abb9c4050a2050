package appliance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
)

// events tells the users of the API what happens to the server itself. They
// are about the namespace kube-system, the one object that every configuration
// has, and lie in the namespace default, as those of other objects without a
// namespace do. Recording never waits and is safe for concurrent use.
type events struct {
	recorder    record.EventRecorder
	broadcaster record.EventBroadcaster
}

// newEvents records through the server's own client. Nothing is recorded where
// the configuration switched events off.
func newEvents(server *apiserver.Server) (*events, error) {
	e := &events{broadcaster: record.NewBroadcaster()}
	e.recorder = e.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kube-hyper-mini"})
	if !server.Serves(corev1.SchemeGroupVersion.WithResource("events")) {
		return e, nil
	}
	client, err := kubernetes.NewForConfig(server.Loopback())
	if err != nil {
		return nil, fmt.Errorf("make the client for events: %w", err)
	}
	e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceAll)})
	return e, nil
}

// record writes an event; kind is corev1.EventTypeNormal or EventTypeWarning.
func (e *events) record(kind, reason, format string, args ...any) {
	subject := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceSystem}
	e.recorder.Eventf(subject, kind, reason, format, args...)
}

// stop ends the recording; events that are not yet written are lost.
func (e *events) stop() { e.broadcaster.Shutdown() }
