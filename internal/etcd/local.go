package etcd

import (
	"context"
	"errors"
	"net"
	"sync"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
)

// localBuffer is the size of the buffer of a local connection, in bytes.
const localBuffer = 64 << 10

// localServer serves the gRPC API of a member within the process. It is safe for
// concurrent use.
type localServer struct {
	mu       sync.Mutex
	listener *bufconn.Listener // nil before the first connection
	server   *grpc.Server
	stopped  bool
}

// dial starts the server if it does not run, and connects to it.
func (l *localServer) dial(ctx context.Context, member *etcdserver.EtcdServer) (net.Conn, error) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return nil, errors.New("connect to etcd: it has been stopped")
	}
	if l.listener == nil {
		l.listener, l.server = bufconn.Listen(localBuffer), v3rpc.Server(member, nil, nil,
			// gRPC alone allows one ping in 5 minutes, and etcd's clients send more.
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: embed.DefaultGRPCKeepAliveMinTime}))
		go func() { _ = l.server.Serve(l.listener) }() // it returns when stop is called
	}
	listener := l.listener
	l.mu.Unlock()
	return listener.DialContext(ctx)
}

// stop ends the server and its connections.
func (l *localServer) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.server != nil {
		l.server.Stop()
	}
}

// Dial connects to the gRPC API of the member without a socket, for clients that
// cannot be handed [Member.Client]. The first call starts the server of the API.
func (m *Member) Dial(ctx context.Context) (net.Conn, error) { return m.local.dial(ctx, m.etcd.Server) }
