// Package early suspends garbage collection while the packages of the program are
// initialized: of the 14 MB that this allocates, most stay in use. The commands resume it
// (package cli), and servers when they are ready. Only main imports this
// package. It imports little, so that it is among the first that are initialized.
package early
