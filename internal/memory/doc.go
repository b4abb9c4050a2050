// Package memory sets how the Go runtime collects garbage in a process that runs servers, and
// when unused memory returns to the system. Its Cache keeps values until it is idle.
package memory
