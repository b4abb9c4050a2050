// Package memory holds garbage collection during a start, and returns unused memory to
// the system when a process becomes idle.
package memory
