// Command planes-controller keeps the config map "greeting" in all control planes of a server:
// one process, and one watch in each, which does not keep it awake.
package main

import (
	"context"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"example.com/planes-controller/provider"
)

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	server, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	options := mcmanager.Options{}
	options.Metrics.BindAddress = "0"
	manager, err := mcmanager.New(server, provider.New(server), options)
	if err != nil {
		return err
	}
	// A control plane has a config map from its start: the authority of its server.
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetNamespace() == "default" && (o.GetName() == "greeting" || o.GetName() == "kube-root-ca.crt")
	})
	err = mcbuilder.ControllerManagedBy(manager).Named("greeting").For(&corev1.ConfigMap{},
		mcbuilder.WithPredicates(ours)).
		Complete(mcreconcile.Func(func(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
			plane, err := manager.GetCluster(ctx, request.ClusterName)
			if err != nil {
				return ctrl.Result{}, err
			}
			greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}}
			_, err = controllerutil.CreateOrUpdate(ctx, plane.GetClient(), greeting, func() error {
				greeting.Data = map[string]string{"text": "hello, " + request.ClusterName.String()}
				return nil
			})
			return ctrl.Result{}, err
		}))
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
