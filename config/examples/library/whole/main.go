// The whole control plane, with the configuration file that it is given.
package main

import (
	"context"
	"log"
	"os"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

func main() {
	cfg, _, err := config.Load(os.Args[1])
	if err == nil {
		err = controlplane.Run(context.Background(), controlplane.Options{Config: cfg, Listen: true}, nil)
	}
	log.Fatal(err)
}
