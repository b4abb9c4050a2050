// Package apiserver builds and runs the chain of API servers: aggregator ->
// native APIs -> apiextensions, each delegating to the next.
//
// [NewOptions] turns the configuration into upstream's option set and checks
// it, without touching files. [New] builds the chain over a storage and a
// listener that somebody else made. [Server.Run] serves until its context
// ends.
//
// DIFFERENCES.md lists what differs from kube-apiserver, and why; a test compares
// both.
package apiserver
