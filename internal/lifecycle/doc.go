// Package lifecycle starts the parts of a process, watches them and stops them.
//
// A [Part] is one function that runs until its context ends. A [Supervisor]
// starts parts stage by stage, notices when one ends by itself, and stops those
// that were started in reverse order, each within a deadline. The first error
// decides how the process ends.
package lifecycle
