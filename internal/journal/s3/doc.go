// Package s3 is the store of a journal in a bucket. Only programs that import it have the
// client: it sets [journal.OpenBucket].
package s3
