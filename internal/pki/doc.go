// Package pki owns the server's identity: three certificate authorities (for
// servers, for clients, for the front proxy), the certificates signed by them,
// and the key that signs service account tokens.
//
// Everything lies in one directory as PEM files, NAME.crt (0644) and NAME.key
// (0600). What is missing is made; what an administrator has placed is used
// and never overwritten, except certificates that this package can sign again
// because it has their authority's key. A renewed certificate keeps its key,
// so that a renewal is the atomic replacement of one file.
package pki
