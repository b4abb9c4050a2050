// Package connections holds what this program relies on in the connections of others:
// the port of the API server, the socket of the service manager, the connections of
// clients of webhooks and of the aggregator.
package connections
