// Package harness runs the real binary and the real kubectl for tests: each
// server with its own data directory, on a free loopback port, ended by the
// process id that it was started with.
package harness
