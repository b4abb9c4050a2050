// Package progress shows on a terminal what a command is doing when that takes longer
// than a second, and how far it is. Elsewhere it shows nothing.
package progress
