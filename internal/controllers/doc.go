// Package controllers runs the generic controllers: those that need no nodes
// and no workloads. Each is an entry in one table with upstream's name; a
// controller whose inputs are not served does not start.
//
// The controllers are upstream's, with two exceptions that a single server
// can do better: the loop that deletes namespaces (see namespace.go), and how
// the garbage collector and the quota controller learn of new types (see
// discovery.go).
package controllers
