// Package incluster tests the command in-cluster with a client that knows in-cluster
// configuration only.
package incluster
