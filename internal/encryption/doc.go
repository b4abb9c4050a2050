// Package encryption keeps the local key that encrypts resources in etcd, as
// an upstream EncryptionConfiguration in the data directory.
//
// The provider is secretbox (XSalsa20 and Poly1305): authenticated, and with
// random nonces long enough that one key serves any number of writes.
package encryption
