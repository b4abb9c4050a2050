// Package appliance composes the server: which components there are, in which
// order they start, when they are ready, how they are stopped.
//
// Start: the data directory is locked and the port is taken; etcd and the
// identity come up side by side; then the API servers; then, once these
// answer, the controllers. Stop is the same in reverse, etcd last.
//
// Ready has one meaning, for /readyz, systemd, `status` and the tests: an
// authenticated write has worked and the controllers run. A full database, which
// takes deletions only, does not end it.
package appliance
