// Command controller is an example of a controller for kube-hyper-mini: an
// ordinary controller-runtime manager. It takes its access from --kubeconfig,
// $KUBECONFIG or the in-cluster files, and elects a leader by a lease. The
// namespace of the lease is a flag: outside of a cluster there is no default.
//
// For each Widget (config/examples/widgets.yaml) it keeps a config map.
// config/examples/controller.yaml has the rights that it needs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func main() {
	name := flag.String("name", "controller", "what to sign config maps with")
	namespace := flag.String("leader-election-namespace", "widgets-system", "namespace of the lease")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), *name, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run returns when ctx ends, or with an error when the lease is lost.
func run(ctx context.Context, name, namespace string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the access to the server: %w", err)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		LeaderElection:          true,
		LeaderElectionID:        "widgets.example.com",
		LeaderElectionNamespace: namespace,
		// Safe because the process ends with the manager; the next one need
		// not wait until the lease runs out.
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: "0"},
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(widgetKind)
	err = ctrl.NewControllerManagedBy(manager).For(widget).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{manager.GetClient(), name})
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	return manager.Start(ctx)
}

// reconciler keeps a config map for each widget.
type reconciler struct {
	client client.Client
	name   string
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(widgetKind)
	if err := r.client.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // the garbage collector takes the config map
	}
	size, _, err := unstructured.NestedInt64(widget.Object, "spec", "size")
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read the size of widget %s: %w", request, err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: "widget-" + request.Name}}
	_, err = controllerutil.CreateOrUpdate(ctx, r.client, configMap, func() error {
		if want := fmt.Sprint(size); configMap.Data["size"] != want {
			configMap.Data = map[string]string{"size": want, "by": r.name}
		}
		return controllerutil.SetControllerReference(widget, configMap, r.client.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("keep the config map of widget %s: %w", request, err)
	}
	return ctrl.Result{}, nil
}
