// Package pki owns the server's identity: three certificate authorities (for
// servers, for clients, for the front proxy), the certificates signed by them,
// and the keys of service account tokens.
//
// Everything lies in one directory as PEM files, NAME.crt (0644) and NAME.key
// (0600). An authority's .crt is a bundle, as kube-apiserver's
// --client-ca-file: every certificate in it is trusted, and the one that
// belongs to NAME.key signs. service-account.key signs tokens; the keys in
// service-account.pub verify them too. What an administrator has placed is used
// and never overwritten, except certificates that this package can sign again
// because it has their authority's key. A renewed certificate keeps its key, so
// that a renewal is the atomic replacement of one file.
//
// [Store.Create] makes what is missing in a new data directory; [Store.Ensure]
// refuses to make authorities and token keys, because clients of a used
// directory know the old ones. A key that is about to be used lies in
// NAME-next.key until its certificate is in place, so that a crash in between
// is told from a damaged directory.
//
// A rotation ([Store.Prepare], [Store.Switch]) trusts a new authority, then signs with it, and
// stops trusting the old one at the end of an overlap. While both are trusted,
// certificates carry the new authority's certificate signed by the old one
// (NAME-cross.crt), so that peers that trust either of them accept them.
// rotations.json records each step before it is taken; Ensure goes on with a
// rotation that a crash cut short. revoked-keys lists client keys that are
// refused.
package pki
