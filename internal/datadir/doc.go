// Package datadir owns the data directory: its layout, its modes, its lock,
// its version stamp, and atomic writes into it.
//
// The layout is an interface that administrators and backups depend on:
//
//	lock                     held by the running server
//	version.json             which release wrote the directory, and its format
//	admin.kubeconfig         the administrator's kubeconfig
//	pki/                     CAs, certificates and keys (see package pki)
//	encryption/              the keys that encrypt resources in etcd
//	etcd/                    the embedded member's data
//	archive/                 the spool of the continuous archive
//	restored-from.json       after a restore from a continuous archive
//
// Directories are 0700 and files 0600, except certificates (0644).
package datadir
