// Package progress shows on a terminal what a command does, and how much of it is done,
// when that takes longer than a second. Without a terminal it shows nothing.
package progress
