// A type in Go, stored in etcd, with a status and the subresource launch.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// BoatSpec is what a user wants.
type BoatSpec struct {
	Length int      `json:"length" description:"in meters"`
	Color  string   `json:"color,omitempty"`
	Crew   []Sailor `json:"crew,omitempty" patchMergeKey:"name"`
}

// Sailor is a member of a crew.
type Sailor struct {
	Name string `json:"name"`
}

// BoatStatus is what there is.
type BoatStatus struct {
	Afloat bool `json:"afloat,omitempty"`
}

// Boat is the type.
type Boat = controlplane.Object[BoatSpec, BoatStatus]

var boats = controlplane.Kind[BoatSpec, BoatStatus]{
	Group: "sea.example.com", Version: "v1", Kind: "Boat", ShortNames: []string{"bo"},
	Default: func(b *Boat) {
		if b.Spec.Color == "" {
			b.Spec.Color = "white"
		}
	},
	Validate: func(_ context.Context, b, _ *Boat) field.ErrorList {
		if b.Spec.Length < 1 {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "length"), b.Spec.Length, "must be positive")}
		}
		return nil
	},
	Columns: []controlplane.KindColumn[BoatSpec, BoatStatus]{
		{Name: "Length", Type: "integer", Value: func(b *Boat) any { return b.Spec.Length }},
		{Name: "Afloat", Type: "boolean", Value: func(b *Boat) any { return b.Status.Afloat }},
	},
	Subresources: map[string]controlplane.Subresource{"launch": {Handler: launch}},
}

// launch sets a boat afloat: kubectl create --raw .../boats/NAME/launch -f /dev/null
func launch(ctx context.Context, boats controlplane.Parent, name string) (http.Handler, error) {
	launched, err := boats.Update(ctx, name, func(o runtime.Object) error {
		o.(*Boat).Status.Afloat = true
		return nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(launched) // the client may have gone
	}), err
}

func main() {
	cfg, _, err := config.Load(os.Args[1])
	if err == nil {
		options := controlplane.Options{Config: cfg, Listen: true, Resources: []controlplane.Resource{boats.Resource()}}
		err = controlplane.Run(context.Background(), options, nil)
	}
	log.Fatal(err)
}
