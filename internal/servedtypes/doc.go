// Package servedtypes follows which types an API server serves besides the
// built-in ones: those of CRDs and of APIServices. [DropManagedFields] reduces the
// memory of informers.
package servedtypes
