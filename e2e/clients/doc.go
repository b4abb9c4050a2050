// Package clients runs recipes of the help topic clients with programs of other projects,
// which take minutes to build. Its tests run with "make e2e-clients" only.
package clients
