// Package early has the child processes of a server for tests: its guard, and the process that
// becomes COMMAND. They are this program, and begin their work in the init function of
// this package, before the packages of Kubernetes are initialized, which takes tens of
// milliseconds and megabytes. Go initializes packages in the order of their import
// paths as soon as their imports are initialized, and this package imports syscall
// only. If that order changed, the children would start later and work as before.
package early
