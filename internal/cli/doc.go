// Package cli has the commands, a file each: they parse, call, and print. What
// they call lives elsewhere.
package cli
