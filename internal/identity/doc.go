// Package identity owns what a server is known by: its certificates and keys, the
// key that encrypts resources, and the administrator's kubeconfig, all in the data
// directory. It makes what is missing in a new directory, renews certificates as
// they come due, and tells the rest of the process of changes.
package identity
