// Package kubectl runs upstream's kubectl in this process, and says more about errors of a
// server that is stopped or has no workloads.
package kubectl
