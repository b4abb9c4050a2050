// Package etcd owns the embedded etcd member. The way in is the in-process
// client; a member listens only for the API servers of other processes (see
// [Listener]), and never for peers.
//
// A start looks for damage before etcd opens the data. bbolt has no checksums, so
// a stop writes one of the database, and a start compares it; after a crash there
// is none, and a start reads the pages and the records. Of a database above 256
// MiB both read evenly spread parts of that size together.
package etcd
