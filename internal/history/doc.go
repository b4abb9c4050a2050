// Package history reads earlier versions of objects from a journal.
//
// A [Journal] finds objects by the content of the values in etcd, which it decrypts
// with the encryption keys in the journal, and decodes. It lists versions,
// finds the moment before a deletion, and keeps the objects of a moment on disk for
// package undelete. Memory is bounded by the number of keys that are asked for, and for
// versions by their limit and 50 bytes for each version that was read, not by the size of
// the journal.
package history
