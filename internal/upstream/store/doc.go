// Package store builds the stores of the API servers the way Kubernetes does, over an etcd
// client of the caller, and reads what they write: keys, encodings, encrypted values.
package store
