// Package apiserver builds and runs the chain of API servers: aggregator ->
// native APIs -> apiextensions, each delegating to the next.
//
// [NewOptions] converts the configuration into upstream's options and checks them. It
// reads the files that the configuration names and writes none. [New] builds the chain
// from a storage and a listener. [Server.Run] serves until its context ends.
//
// DIFFERENCES.md lists the differences from kube-apiserver and their reasons. Tests
// compare both.
package apiserver
