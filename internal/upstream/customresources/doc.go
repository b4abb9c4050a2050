// Package customresources holds what the server of custom resources repeats of
// apiextensions-apiserver, or relies on in it: discovery, stored encodings, the handler's
// use of its lister, and the answers for types without objects.
package customresources
