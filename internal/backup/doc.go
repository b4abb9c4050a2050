// Package backup makes and restores backups of a server: a snapshot of its etcd, its
// certificates and keys, the keys that encrypt resources, its configuration, and the
// versions that wrote them.
//
// A backup is a gzipped tar stream, optionally encrypted with age:
//
//	manifest.json         what follows, with sizes and SHA-256 sums
//	etcd/snapshot.db      what `etcdctl snapshot save` writes
//	pki/                  as in the data directory
//	encryption/           as in the data directory
//	config/config.yaml    the effective configuration
//	config/files/         the files that the configuration names
//
// The manifest is the first file, so that listing is cheap. All other files are compared
// with it, so that a truncated or changed backup is detected before it is used. The
// snapshot is first copied to the local disk: a slow reader must not keep a transaction
// of the database open.
package backup
