// Package checks has tests of the source tree: which package imports which, what
// ARCHITECTURE.md says about that, and the limits of CONTRIBUTING.md. It has no other code.
package checks
