// Package customresources has the code that repeats what apiextensions-apiserver does, or
// relies on it: discovery, stored encodings, the handler's use of its lister, and the
// answers for types without objects.
package customresources
