// Package admin implements what the commands of this program do with a server: status,
// backup, defragment, rotate. It has the types, the HTTP handlers outside of the
// Kubernetes API, the client of a running server, and the same operations on a data
// directory that no server uses.
package admin
