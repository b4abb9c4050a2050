// Package history reads earlier versions of objects from a continuous archive.
//
// An [Archive] finds the keys of objects by what is stored under them, decrypts
// values with the keys that the archive has, and decodes them. It lists versions,
// finds the moment before a deletion, and keeps the objects of a moment on disk for
// package undelete. Memory is bounded by the number of keys and versions that are
// asked for, not by the size of the archive.
package history
