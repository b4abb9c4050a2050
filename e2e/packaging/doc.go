// Package packaging tests the ways in which the product is installed and run:
// the commands of a laptop, the package with its service, the container
// image, the manifests, the archives of a release.
package packaging
