// Package kubectl runs upstream's kubectl in this process. Its `cluster-info` answers on a
// server without Services too.
package kubectl
