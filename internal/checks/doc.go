// Package checks has tests of the source tree: which package imports which, and what
// ARCHITECTURE.md says about that. It has no other code.
package checks
