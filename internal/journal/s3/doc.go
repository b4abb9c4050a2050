// Package s3 is the store of a journal in a bucket. It imports nothing of this module, so that
// only programs with such journals have the client ([journal.OpenBucket]).
package s3
