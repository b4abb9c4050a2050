// Package reconcile is the loop of a controller: keys of objects in a queue, and
// workers that handle each until it needs no more work.
package reconcile
