// Package incluster runs a program that knows only in-cluster configuration ([Run]):
// it finds a service account's token, the authority and the namespace at the path
// where a pod has them, and no other process of the machine sees a change. The
// program runs in a mount namespace, which is why this works on Linux only.
package incluster
