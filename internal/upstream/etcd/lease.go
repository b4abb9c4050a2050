package etcd

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Upstream fact: how etcd writes leases into its database
//
// Mirrors: go.etcd.io/etcd/server/v3/storage/schema.MustUnsafePutLease
//   go.etcd.io/etcd/server/v3/storage/schema.leaseIDToBytes
//   go.etcd.io/etcd/server/v3/lease/leasepb.Lease
// Why: a restore of the journal writes leases into a snapshot with the IDs that they had.
//   On a running member they would begin anew. The fields are written by their numbers,
//   because the generated methods of 3.6 are gone in 3.7.
// Gain: events and other objects with a time to live expire after a restore.
// Breaks: they stay for ever, or the restored member does not start.
//   TestLeases fails.

// Numbers of the fields of leasepb.Lease.
const (
	fieldLeaseID  = 1
	fieldLeaseTTL = 2
)

// LeaseKey is the key of a lease in the bucket of leases.
func LeaseKey(id int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

// Lease is the value of a lease in the bucket of leases. ttl is in seconds.
func Lease(id, ttl int64) []byte {
	lease := protowire.AppendTag(nil, fieldLeaseID, protowire.VarintType)
	lease = protowire.AppendVarint(lease, uint64(id))
	lease = protowire.AppendTag(lease, fieldLeaseTTL, protowire.VarintType)
	return protowire.AppendVarint(lease, uint64(ttl))
}
