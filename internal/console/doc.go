// Package console serves a web application that shows and edits what a
// Kubernetes API server holds: types, objects, schemas, access. It listens on
// loopback only and forwards the page's requests to the API server with the
// rights of one kubeconfig, as `kubectl proxy` does; unlike that, it answers
// only a browser that has opened the address with the token on the terminal.
// Its page at /clusters/NAME is that of a control plane of the server.
//
// The application's source is in web/src; web/dist holds the built files, which
// are embedded. `make console` builds them.
package console
