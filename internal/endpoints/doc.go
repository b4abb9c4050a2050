// Package endpoints finds the servers behind `service:` references. An
// APIService, an admission webhook and a CRD conversion webhook name their
// backend as a Service's namespace, name and port; there are no Services here
// and no cluster DNS.
//
// A [Resolver] answers for all three from ServiceEndpoint objects, then from the
// configuration, then with the upstream name <name>.<namespace>.svc. The URL that it
// returns has a host name of its own, which [Resolver.Dialer] resolves when it
// connects: health and changes apply to new connections. TLS verifies
// <name>.<namespace>.svc as always.
//
// [Resolver.Run] follows the objects and writes their status.
package endpoints
