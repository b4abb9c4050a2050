// Package cli has the commands, one file each. They parse flags, call other
// packages, and print.
package cli
