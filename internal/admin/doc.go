// Package admin implements what the commands of this program do with a server: status,
// backup, defragment, rotate. It has the types, the HTTP handlers outside of the
// Kubernetes API, and the client of a running server.
package admin
