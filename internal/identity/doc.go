// Package identity keeps the identity of a server in the data directory: its
// certificates and keys, the key that encrypts resources, and the administrator's
// kubeconfig. It creates missing files in a new directory, renews certificates before
// they expire, and passes changes to the rest of the process.
package identity
