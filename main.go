// Command kube-hyper-mini is the Kubernetes control plane without the
// containers, in one process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for the time zones of CronJobs and backup.schedule, which an image from scratch lacks

	"kube-hyper-mini.io/kube-hyper-mini/internal/cli"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		stop()
		for <-signals == syscall.SIGHUP { // a terminal that closes sends several
		}
		os.Exit(cli.ExitInterrupted) // a second signal does not wait for an orderly stop
	}()
	os.Exit(cli.RunAs(ctx, os.Args[0], os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
