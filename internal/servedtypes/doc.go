// Package servedtypes reports changes of the types that an API server serves besides
// the built-in ones: those of CRDs and of APIServices. [Roles] are the roles that have the
// types of CRDs. [DropUnread] reduces the memory of informers.
package servedtypes
