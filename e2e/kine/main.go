// The kine command serves etcd's API from a SQLite database. It is put together
// from kine's packages as kine's own command is, with one driver instead of all,
// which are megabytes of clients for databases that the tests do not have.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/drivers/sqlite"
	"github.com/k3s-io/kine/pkg/server"
	"google.golang.org/grpc"
)

// The defaults of kine's own command (pkg/app and pkg/endpoint).
const (
	emulatedEtcd    = "3.6.11"
	notifyInterval  = 5 * time.Second
	pollInterval    = time.Second
	pollBatch       = 500
	compactTimeout  = 5 * time.Second
	compactRetained = 1000
	compactBatch    = 1000
	idleConnections = 20
	maxReceive      = 2 << 20
	maxSend         = 1<<31 - 1
)

func main() {
	address := flag.String("listen", "127.0.0.1:2379", "address of etcd's API")
	file := flag.String("database", "kine.db", "file of the database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address, file string) error {
	var working sync.WaitGroup
	defer working.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, backend, err := sqlite.New(ctx, &working, &drivers.Config{
		DataSourceName:       file + "?" + sqlite.DefaultParams,
		ConnectionPoolConfig: generic.ConnectionPoolConfig{MaxIdle: idleConnections},
		PollInterval:         pollInterval, PollBatchSize: pollBatch,
		CompactTimeout: compactTimeout, CompactMinRetain: compactRetained, CompactBatchSize: compactBatch,
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	if err := backend.Start(ctx); err != nil {
		return fmt.Errorf("begin to follow %s: %w", file, err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	services := grpc.NewServer(grpc.MaxRecvMsgSize(maxReceive), grpc.MaxSendMsgSize(maxSend))
	server.New(backend, "http", notifyInterval, emulatedEtcd).Register(services)
	working.Go(func() {
		<-ctx.Done()
		services.Stop()
	})
	return services.Serve(listener)
}
