package storage

import clientv3 "go.etcd.io/etcd/client/v3"

// GatedKV writes as the API servers do: it waits while the store is busy and is
// refused while the store takes no writes.
func (c *Connection) GatedKV() clientv3.KV { return patientKV{c.Client.KV, c} }
