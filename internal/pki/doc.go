// Package pki creates, renews, rotates and revokes the server's certificates and
// keys: the certificate authorities of servers, of clients and of the front proxy,
// that of an etcd that listens ([Store.AddEtcd]), the certificates signed by them,
// and the keys of service account tokens.
//
// All files are in one directory, as PEM: NAME.crt (0644) and NAME.key (0600). The
// .crt of an authority is a bundle, as in kube-apiserver's --client-ca-file: every
// certificate in it is trusted, and the one that belongs to NAME.key signs.
// service-account.key signs tokens; the keys in service-account.pub verify them
// too. Files that an administrator has placed are used and never overwritten,
// except certificates that this package can sign again because it has their
// authority's key. client-ca-signing.key repeats the key of clients' authority with the
// certificate that belongs to it ([Store.SigningPair]). A renewed certificate keeps its key:
// a renewal replaces one file atomically.
//
// [Store.Create] makes all missing files, for a new data directory. [Store.Ensure]
// refuses to make authorities and token keys, because clients of a used directory
// know the old ones. A new key is in NAME-next.key until its certificate is in
// place. That file distinguishes a crash in between from a damaged directory.
//
// A rotation has three steps: it trusts a new authority ([Store.Prepare]), signs with it
// ([Store.Switch]), and stops trusting the old one at the end of an overlap
// ([Store.Finish]). While both are trusted, certificate files also contain the new
// authority's certificate signed by the old one (NAME-cross.crt): peers that
// trust either authority accept them. rotations.json records each step before
// it is taken; Ensure continues a rotation that a crash interrupted.
// revoked-keys lists the client keys that are refused.
package pki
