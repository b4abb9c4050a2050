// CRDs of the program, admission in Go, and a controller that labels new widgets.
package main

import (
	"context"
	"embed"
	"errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"log"
	"os"
)

//go:embed widgets.yaml
var crds embed.FS

func label(ctx context.Context, client *rest.Config) error {
	widgets := dynamic.NewForConfigOrDie(client).Resource(schema.GroupVersion{Group: "example.com", Version: "v1"}.WithResource("widgets"))
	events, err := widgets.Watch(ctx, metav1.ListOptions{LabelSelector: "!seen"})
	for err == nil {
		event, open := <-events.ResultChan()
		if w, ok := event.Object.(metav1.Object); ok && event.Type == "ADDED" {
			_, err = widgets.Namespace(w.GetNamespace()).Patch(ctx, w.GetName(), "application/merge-patch+json",
				[]byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{})
		} else if !open { // a watch ends from time to time, and with ctx
			events, err = widgets.Watch(ctx, metav1.ListOptions{LabelSelector: "!seen"})
		}
	}
	return err
}

func main() {
	cfg, _, err := config.Load(os.Args[1])
	if err == nil {
		err = controlplane.Run(context.Background(), controlplane.Options{
			Config: cfg, Listen: true, Manifests: crds, Controllers: []controlplane.Controller{{Name: "label", Run: label}},
			Admission: []controlplane.Admission{{Name: "short names", Validate: func(_ context.Context, a admission.Attributes) error {
				if a.GetResource().Resource == "widgets" && len(a.GetName()) > 10 {
					return admission.NewForbidden(a, errors.New("the name of a widget has 10 letters at most"))
				}
				return nil
			}}}}, nil)
	}
	log.Fatal(err)
}
