// Package upgrade tests that data of earlier releases can be taken over, and
// the way back. The earlier releases are built from this repository's history.
package upgrade
