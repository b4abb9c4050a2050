// Package encryption owns the local keys that encrypt resources in etcd, kept
// as an upstream EncryptionConfiguration in the data directory.
//
// [Ensure] makes the file and follows the server's configuration. A file that
// was edited is only read. [Rotation] replaces the key of one that was not; the file
// itself says how far it has come. [CheckReadable] reports whether the objects in etcd can be
// decrypted with the file.
//
// The provider is secretbox (XSalsa20 and Poly1305): authenticated, and with
// random nonces long enough that one key serves any number of writes.
package encryption
