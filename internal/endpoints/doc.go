// Package endpoints finds the servers behind `service:` references. An
// APIService, an admission webhook and a CRD conversion webhook name their
// backend as a Service's namespace, name and port; there are no Services here
// and no cluster DNS.
//
// A [Resolver] answers for all three from ServiceEndpoint objects, then from
// the configuration, then with the upstream name <name>.<namespace>.svc. What
// it returns as a URL is a name of its own that [Resolver.Dialer] turns into
// a connection to one of the targets, so that health and changes are known
// where connections are made. TLS verifies <name>.<namespace>.svc as always.
//
// [Resolver.Run] follows the objects and writes their status.
package endpoints
