// Package datadir owns the data directory: its layout, its modes, its lock,
// its version stamp, and atomic writes into it.
//
// The layout is an interface that administrators and backups depend on:
//
//	lock                     held by the running server
//	ephemeral                the data is removed when the server ends
//	version.json             which release wrote the directory, and its format
//	used-config.json         the configuration of the server (see config.Used)
//	admin.kubeconfig         the administrator's kubeconfig
//	pki/                     CAs, certificates and keys (see package pki)
//	encryption/              the keys that encrypt resources in etcd
//	etcd/                    the embedded member's data
//	backups/                 backups, unless backup.dir is set
//	journal/                 the spool of the journal
//	restored-from.json       the journal that was restored
//	restored-config/         the configuration in the restored backup
//	before-restore-TIME/     the content before a restore
//	before-import/           the content before an import of a bundle
//	swap.json                an exchange of the content by a restore, until it is finished
//
// Directories are 0700 and files 0600, except certificates (0644) and files for
// which the configuration sets another mode (kubeconfig.mode). The variable layout has every
// entry; a directory that no server has used and that has other entries is refused.
package datadir
