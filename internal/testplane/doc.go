// Package testplane runs a server for tests in this process ([Server]) and a
// command against it ([Run]). The server has settings without durability
// ([Configure]) and a temporary directory ([Directory]), which is removed also
// if the process is killed ([Guard]).
package testplane
