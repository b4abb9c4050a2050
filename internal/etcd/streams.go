package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc"

	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
)

// streams are the watch streams of the clients in this process. A stream reads the database
// for a moment after its client has gone (the former values of events): etcd panics if the
// database is closed then, and waits only for the streams of its listeners.
type streams struct{ open sync.WaitGroup }

// watcher returns a watcher with a stream of its own, for each of the contexts' metadata.
func (s *streams) watcher(server *etcdserver.EtcdServer, client *clientv3.Client) clientv3.Watcher {
	inner := adapter.WatchServerToWatchClient(endedStreams{v3rpc.NewWatchServer(server), s})
	return clientv3.NewWatchFromWatchClient(begunStreams{inner, s}, client)
}

// begunStreams count the streams that begin.
type begunStreams struct {
	pb.WatchClient
	streams *streams
}

// Watch implements [pb.WatchClient].
func (b begunStreams) Watch(ctx context.Context, options ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	b.streams.open.Add(1)
	return b.WatchClient.Watch(ctx, options...) // calls endedStreams.Watch in a goroutine
}

// endedStreams count the streams that have ended.
type endedStreams struct {
	pb.WatchServer
	streams *streams
}

// Watch implements [pb.WatchServer].
func (e endedStreams) Watch(stream pb.Watch_WatchServer) error {
	defer e.streams.open.Done()
	return e.WatchServer.Watch(stream)
}

// streamsTimeout bounds the wait for streams, whose clients have gone.
const streamsTimeout = 5 * time.Second

// wait waits until all streams have ended.
func (s *streams) wait() { lifecycle.WaitAtMost(&s.open, streamsTimeout) }
