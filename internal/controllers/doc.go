// Package controllers runs the generic controllers: those that need no nodes
// and no workloads. Each is an entry in one table with upstream's name; a
// controller whose inputs are not served does not start.
//
// The controllers are upstream's, with two exceptions that a single server
// can do better: the loop that deletes namespaces (see namespace.go), and which
// types the garbage collector and the quota controller monitor. Upstream's
// monitor every type that discovery lists. These monitor the types that hold
// objects:
//
//   - discovery.go knows the served types, and asks when something changes
//   - visible.go chooses those with objects (see storage.Population)
//   - monitors.go and informers.go make and end the informers behind them
//   - order.go keeps the deletion of an owner behind its first dependents
//   - quota.go lets a quota count types that have no monitor
package controllers
