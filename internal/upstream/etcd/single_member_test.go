package etcd

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// TestElect: a member of this version of etcd is elected at once, a new one and one with a log of
// which etcd drops entries while it is applied. It has the buffer of the log.
func TestElect(t *testing.T) {
	t.Parallel()
	config := embed.NewConfig()
	config.Dir = t.TempDir()
	config.UnsafeNoFsync = true
	config.SnapshotCatchUpEntries = 1
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	BecomeSingleMember(config)
	for range 3 {
		started, err := embed.StartEtcd(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := ShrinkLogBuffer(started.Server); err != nil {
			t.Error(err)
		}
		if err := Elect(t.Context(), started.Server); err != nil {
			t.Fatal(err)
		}
		select {
		case <-started.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("the member is not elected")
		}
		if leader := started.Server.Leader(); leader != started.Server.MemberID() {
			t.Errorf("the leader is %s", leader)
		}
		for range 200 {
			if _, err := started.Server.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte("key")}); err != nil {
				t.Fatal(err)
			}
		}
		started.Close()
	}
}
