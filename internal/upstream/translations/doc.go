// Package translations loads the translations of kubectl's messages only in a process
// that runs kubectl. It is imported for that alone.
package translations
