// Package version knows the versions of the program and of the libraries it
// is made of.
package version
