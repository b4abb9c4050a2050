// Package controllers runs the generic controllers: those that need no nodes and no
// workloads. Each is an entry in the table of table.go, with upstream's name. A
// controller whose resources are not served does not start.
//
// custom_roles.go is our own: it keeps custom resources in the roles view, edit and admin.
// The other controllers are upstream's, with two exceptions: the loop that deletes
// namespaces (namespace.go), and the types that the garbage collector and the quota
// controller monitor. Upstream's monitor every type that discovery lists. These
// monitor the types that have objects:
//
//   - discovery.go queries discovery when a CRD or APIService changes
//   - visible.go chooses the types with objects (see storage.Population)
//   - informers.go starts and stops the informers of these types
//   - garbage.go delays the deletion of an owner until its dependents are listed
//   - quota.go lets a quota count types without a monitor
package controllers
