package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Sizes of the database in bytes: of its file, of what is in use in it, and at
// which it should take no more writes, for which the caller sees.
func (m *Member) Sizes() (size, inUse, quota int64) {
	backend := m.etcd.Server.Backend()
	return backend.Size(), backend.SizeInUse(), m.quota
}

// Revision of the objects.
func (m *Member) Revision() int64 { return m.etcd.Server.KV().Rev() }

// NoSpace says whether etcd's alarm of that name is raised: it then reads and
// deletes, and writes nothing. The alarm outlives the process.
func (m *Member) NoSpace() bool {
	for _, alarm := range m.etcd.Server.Alarms() {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}

// SetNoSpace raises the alarm or takes it back.
func (m *Member) SetNoSpace(ctx context.Context, raised bool) error {
	request := &etcdserverpb.AlarmRequest{MemberID: uint64(m.etcd.Server.MemberID()), Alarm: etcdserverpb.AlarmType_NOSPACE}
	request.Action = etcdserverpb.AlarmRequest_DEACTIVATE
	if raised {
		request.Action = etcdserverpb.AlarmRequest_ACTIVATE
	}
	if _, err := m.etcd.Server.Alarm(ctx, request); err != nil {
		return fmt.Errorf("set etcd's alarm: %w", err)
	}
	return nil
}

// Compact forgets all history of the objects and returns when the space is
// free inside of the database.
func (m *Member) Compact(ctx context.Context) error {
	_, err := m.client.Compact(ctx, m.Revision(), clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd's history: %w", err)
	}
	return nil
}

// Defragment rewrites the database without what is free in it. Reads and
// writes wait meanwhile, between hold and its release. It needs room on the
// disk for what is in use. It begins when no snapshot is under way, for whose
// end the database would be locked.
func (m *Member) Defragment(ctx context.Context, hold func() (release func())) error {
	if err := m.takeTurn(ctx); err != nil {
		return fmt.Errorf("defragment etcd's database: %w", err)
	}
	defer m.giveTurn()
	defer hold()()
	if err := m.etcd.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment etcd's database: %w", err)
	}
	return nil
}

// takeTurn waits until nobody else reads or writes the database as a whole.
func (m *Member) takeTurn(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a snapshot or a defragmentation to end: %w", context.Cause(ctx))
	}
}

func (m *Member) giveTurn() { <-m.turn }
