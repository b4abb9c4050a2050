// Package backup owns the archive that holds what a server is: a snapshot of
// its etcd, its certificate authorities and keys, the keys that encrypt
// resources, its configuration, and which versions wrote it.
//
// An archive is a tar stream in gzip, sealed with age where that was asked for:
//
//	manifest.json         what follows, with sizes and SHA-256 sums
//	etcd/snapshot.db      what `etcdctl snapshot save` writes
//	pki/                  as in the data directory
//	encryption/           as in the data directory
//	config/config.yaml    the effective configuration
//	config/files/         the files that the configuration names
//
// The manifest comes first, so that listing is cheap, and everything after it is
// held against it, so that a truncated or altered archive is noticed before any
// of it is used. The snapshot is a copy on the local disk before it is
// archived: a slow reader must not hold a transaction of the database open.
package backup
