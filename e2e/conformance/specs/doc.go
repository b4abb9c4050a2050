// Package specs holds the lists of upstream's specs that a control plane
// without nodes must pass, and for each list the configuration of the server
// that it is run against.
package specs
