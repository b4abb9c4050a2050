// Package doctor looks for what is wrong with a data directory or a running server,
// and says what to do about it. It changes nothing.
package doctor
