// Package planes runs many control planes in the process of one server, its host. Each is a
// data directory with an etcd, authorities and RBAC of its own, described by an object of the
// type ControlPlane in the host, and reached at /clusters/NAME on the host's port.
//
// A control plane that nobody uses is asleep: files, no goroutines. The next request wakes it.
// Its open watches are parked meanwhile: they have had every event up to the revision at which
// it went to sleep, and continue after that revision.
//
// It is built on package controlplane. What is made of closed files, backups and restores, comes
// from internal/appliance/parts.
package planes
