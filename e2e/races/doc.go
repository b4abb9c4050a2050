// Package races deletes owners right after their dependents were created, and
// CRDs while their objects are being collected, and says what became of the
// dependents. It needs nothing but an API server with a garbage collector.
package races
