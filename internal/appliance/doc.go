// Package appliance composes the server: its parts, the order in which they start,
// when they are ready, and how they stop. Begin to read at [Run] in server.go.
//
// Start: lock the data directory and take the port; start etcd and the identity
// side by side; then the API servers; then, when these are ready, the controllers
// and the manifests. Stop is the same in reverse, etcd last.
package appliance
