package etcd

import (
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// TestSlowTicks: the member of this version of etcd has the ticker, before and after its
// election, and the buffer of the log.
func TestSlowTicks(t *testing.T) {
	t.Parallel()
	config := embed.NewConfig()
	config.Dir = t.TempDir()
	config.UnsafeNoFsync = true
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	BecomeSingleMember(config)
	started, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close()
	if err := ShrinkLogBuffer(started.Server); err != nil {
		t.Error(err)
	}
	slow, err := SlowTicks(started.Server)
	if err != nil {
		t.Fatal(err)
	}
	slow() // an election at the rare ticks takes longer, and comes nevertheless
	select {
	case <-started.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("the member is not elected")
	}
	slow()
	if leader := started.Server.Leader(); leader != started.Server.MemberID() {
		t.Errorf("the leader is %s", leader)
	}
}
