// Package configlock has the fact about the lock of a kubeconfig.
package configlock
