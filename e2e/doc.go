// Package e2e tests the real binary as a user runs it, with the real kubectl.
package e2e
