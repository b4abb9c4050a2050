// Package reconcile is the loop of a controller: keys of objects in a queue, and
// workers that handle each until it needs no more work. [Pause] and [Deleted] are what
// other loops and handlers of informers need.
package reconcile
