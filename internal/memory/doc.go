// Package memory returns memory that a process with servers does not use to the system. Its Cache
// keeps values until it is idle.
package memory
