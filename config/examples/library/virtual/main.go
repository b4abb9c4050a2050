// A read-only resource that is not stored: how many config maps each namespace has.
package main

import (
	"context"
	"log"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// Count is the spec of a Summary.
type Count struct {
	ConfigMaps int `json:"configMaps"`
}

// Summary is the type.
type Summary = controlplane.Object[Count, struct{}]

func list(ctx context.Context, client *rest.Config, _ string) ([]Summary, error) {
	maps, err := kubernetes.NewForConfigOrDie(client).CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var summaries []Summary
	at := map[string]int{}
	for _, m := range maps.Items {
		i, known := at[m.Namespace]
		if !known {
			i, at[m.Namespace] = len(summaries), len(summaries)
			summaries = append(summaries, Summary{ObjectMeta: metav1.ObjectMeta{Name: m.Namespace}})
		}
		summaries[i].Spec.ConfigMaps++
	}
	return summaries, nil
}

func main() {
	summaries := controlplane.Kind[Count, struct{}]{
		Group: "view.example.com", Version: "v1", Kind: "Summary", Name: "summaries", ClusterScoped: true, List: list,
		Columns: []controlplane.KindColumn[Count, struct{}]{{Name: "Config Maps", Type: "integer",
			Value: func(s *Summary) any { return s.Spec.ConfigMaps }}},
	}
	cfg, _, err := config.Load(os.Args[1])
	if err == nil {
		options := controlplane.Options{Config: cfg, Listen: true, Resources: []controlplane.Resource{summaries.Resource()}}
		err = controlplane.Run(context.Background(), options, nil)
	}
	log.Fatal(err)
}
