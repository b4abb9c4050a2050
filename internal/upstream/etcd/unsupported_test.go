package etcd_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// refusingStore refuses snapshots with an error; if that is nil, it sends one.
type refusingStore struct {
	etcdserverpb.UnimplementedMaintenanceServer
	refusal error
}

// Snapshot implements [etcdserverpb.MaintenanceServer].
func (s *refusingStore) Snapshot(_ *etcdserverpb.SnapshotRequest, stream etcdserverpb.Maintenance_SnapshotServer) error {
	if s.refusal != nil {
		return s.refusal
	}
	return stream.Send(&etcdserverpb.SnapshotResponse{Blob: []byte("snapshot")})
}

// TestSnapshotReader: a store without snapshots is told from one that fails.
func TestSnapshotReader(t *testing.T) {
	for name, test := range map[string]struct {
		refusal     error
		unsupported bool
	}{
		"etcd":                  {},
		"a store without them":  {status.Error(codes.Unimplemented, "unknown method Snapshot"), true},
		"kine":                  {errors.New("snapshot is not supported"), true},
		"a store that is ended": {status.Error(codes.Internal, "stopped"), false},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			etcdserverpb.RegisterMaintenanceServer(server, &refusingStore{refusal: test.refusal})
			go func() { _ = server.Serve(listener) }() // until Stop
			defer server.Stop()
			client, err := clientv3.New(clientv3.Config{
				Endpoints: []string{listener.Addr().String()}, Context: context.Background(), Logger: zap.NewNop(),
				DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }() // the server ends
			stream, err := client.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			reader, err := etcd.SnapshotReader(stream)
			if errors.Is(err, errors.ErrUnsupported) != test.unsupported {
				t.Fatalf("unsupported: %v", err)
			}
			if test.unsupported {
				return
			}
			content, err := io.ReadAll(reader)
			if test.refusal == nil && (err != nil || string(content) != "snapshot") {
				t.Errorf("%q, %v", content, err)
			}
			if test.refusal != nil && (err == nil || !strings.Contains(err.Error(), "stopped")) {
				t.Errorf("the error of the store is %v", err)
			}
		})
	}
}
