// Package cli has the commands, one file each. A command parses its flags, calls another
// package, and prints the result.
package cli
