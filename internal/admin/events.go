package admin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// Events writes Kubernetes events about the server itself. The involved object is the
// namespace kube-system, which every configuration has. The events are in the namespace
// default, as all events of cluster-scoped objects. Record never blocks and is safe for
// concurrent use.
type Events struct {
	recorder    record.EventRecorder
	broadcaster record.EventBroadcaster
}

// NewEvents returns Events that are written with config. If events are not served, none
// is written. The keeper and the writer, which may be nil, record theirs from now on.
func NewEvents(config *rest.Config, served bool, keeper *maintenance.Keeper, writer *journal.Writer) (*Events, error) {
	e := &Events{broadcaster: record.NewBroadcaster()}
	e.recorder = e.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kube-hyper-mini"})
	if served {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("make the client for events: %w", err)
		}
		e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceAll)})
	}
	if keeper != nil {
		keeper.RecordEvents(e.Record)
	}
	if writer != nil {
		writer.RecordEvents(e.Record)
	}
	return e, nil
}

// Record writes an event; kind is corev1.EventTypeNormal or EventTypeWarning.
func (e *Events) Record(kind, reason, format string, args ...any) {
	subject := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceSystem}
	e.recorder.Eventf(subject, kind, reason, format, args...)
}

// Stop ends the recording; events that are not yet written are lost.
func (e *Events) Stop() { e.broadcaster.Shutdown() }
