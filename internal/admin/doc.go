// Package admin is what a server says and does for the program's own commands:
// status, backup, defragment, rotate. It has the types, the HTTP handlers beside the
// Kubernetes API, the client that asks a running server, and the same for a data
// directory that no server uses.
package admin
