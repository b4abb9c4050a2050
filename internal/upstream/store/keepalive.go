package store

import "time"

// Upstream fact: how soon a client of etcd notices that a member is gone
//
// Mirrors: k8s.io/apiserver/pkg/storage/storagebackend/factory.keepaliveTime
//   k8s.io/apiserver/pkg/storage/storagebackend/factory.keepaliveTimeout
// Why: the client of an external etcd is made here, once for all resources, and the
//   constants are not exported.
// Gain: no optimisation: a member that is gone is noticed as soon as by kube-apiserver.
// Breaks: another member is used later, or sooner, than by kube-apiserver. Nothing is lost.
//   No test: it would wait for 40 seconds.

const (
	// KeepaliveTime is the time without traffic after which a client pings the member.
	KeepaliveTime = 30 * time.Second
	// KeepaliveTimeout is the time for the answer; then the connection is closed.
	KeepaliveTimeout = 10 * time.Second
)
