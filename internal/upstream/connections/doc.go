// Package connections has the code that relies on what others do with connections: the
// API server with its port and the socket of the service manager, and the clients of
// webhooks and of aggregated API servers with their pools.
package connections
