// Package kubectl runs upstream's kubectl in this process.
package kubectl
