// Package etcd runs the embedded etcd member ([Member]) and connects to an external
// etcd ([Connect]). It also restores snapshots, takes them from a member that does
// not run, and records which release has written to an etcd. Clients in the same
// process reach the member through memory. It listens on TCP only if it runs in a
// process of its own ([Listener]), and never for peers.
//
// A start looks for damage before etcd opens the database. bbolt has no checksums:
// a stop writes a checksum of the database, of evenly spread parts if it has more than
// 256 MiB, and the next start verifies it. After a crash there is no checksum, and the
// start checks the database with bbolt, in another process (see [CheckDatabase]).
//
// Package datastore makes either etcd a part of the server; package maintenance
// keeps the database of the embedded one within its quota.
package etcd
