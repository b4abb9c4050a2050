// Package testplane runs a server for tests in this process ([Server]) and a
// command against it ([Run]). The server has a temporary directory, which is removed also if the
// process is killed ([Guard]).
package testplane
