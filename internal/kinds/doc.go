// Package kinds follows what an API server serves besides what is built into
// it: the CRDs and the APIServices.
package kinds
