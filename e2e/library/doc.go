// Package library runs the programs of config/examples/library, which are built on the public
// package controlplane, and uses their servers with kubectl.
package library
