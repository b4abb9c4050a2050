// Package undelete brings deleted objects back through the API, as a continuous
// journal has them.
//
// [NewPlan] collects an object with all that depends on it: its dependents by owner
// reference, the content of a namespace, the objects of a custom resource
// definition. It asks the server with a dry run whether each of them can be
// created. [Plan.Apply] creates them, owners first, with references to the new UIDs
// of their owners. Server-set fields are new. Labels, annotations, finalizers, field
// managers, and the status where the API takes it, are those of the journal.
//
// Objects that exist are never changed.
package undelete
