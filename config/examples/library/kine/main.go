// Storage in kine: the program starts kine with SQLite, and the control plane uses it as etcd.
package main

import (
	"context"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, _, err := config.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	kine := exec.Command(os.Args[2], os.Args[3:]...) // kine, and its flags
	kine.Stderr = os.Stderr
	if err := kine.Start(); err != nil {
		log.Fatal(err)
	}
	err = controlplane.Run(ctx, controlplane.Options{Config: cfg, Listen: true}, nil)
	_ = kine.Process.Kill() // the control plane does not use it any more
	_ = kine.Wait()
	if err != nil {
		log.Fatal(err)
	}
}
