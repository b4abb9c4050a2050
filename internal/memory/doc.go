// Package memory returns memory to the system when a process has come to rest.
package memory
