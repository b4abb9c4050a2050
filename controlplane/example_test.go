package controlplane_test

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// A control plane that leaves nothing, and a client in its process.
func Example() {
	cp, err := controlplane.New(controlplane.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := cp.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	found, err := client.CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Name, found.Status.Phase)
	if err := cp.Stop(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: default Active
}
