// Package testplane owns what makes a server one for tests: settings without
// durability ([Configure]), a temporary directory ([Directory]) that is removed
// however the process ends ([Guard]), objects that are in it before a test begins
// ([Fill]), and a command that runs against it ([Command]).
package testplane
