package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// allControllers are those of kube-controller-manager that are on by default, and the
// two for bootstrap tokens, which are on in kubeadm's clusters.
var allControllers = []string{"*", "bootstrap-signer-controller", "token-cleaner-controller"}

// servedAPIServerArgs are kube-apiserver's if the other side is not measured but serves.
// Without an --advertise-address the endpoints of the Service default/kubernetes have that
// of the default route: they cannot be on loopback.
var servedAPIServerArgs = []string{"--allow-privileged"}

// serveTheirs runs the other side on a new directory and prints the path of its kubeconfig. It
// returns when ctx ends, or with an error when a process has ended by itself.
func (b *bench) serveTheirs(ctx context.Context, out io.Writer) error {
	return b.started(ctx, b.sides[0], func(c *cluster) error {
		if _, err := fmt.Fprintln(out, c.kubeconfig); err != nil {
			return fmt.Errorf("print the path of the kubeconfig: %w", err)
		}
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				if err := c.alive(); err != nil {
					return err
				}
			}
		}
	})
}
