// Package servedtypes follows which types an API server serves besides the
// built-in ones: those of CRDs and of APIServices. [DropManagedFields] is for
// the informers of the process, of which no reader needs managed fields.
package servedtypes
