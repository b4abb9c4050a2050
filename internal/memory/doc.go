// Package memory returns unused memory to the system when a process becomes idle.
package memory
