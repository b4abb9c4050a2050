// Package upstream is the fence around Kubernetes and etcd. Its packages have all code
// that repeats what a library does, or relies on something that the library does not
// promise: unexported functions, the order of statements, names of hooks, texts of
// messages.
//
//   - kube: the API servers and the controllers
//   - customresources: the server of custom resources
//   - workloads: the assembly of kube-apiserver
//   - store: how the API servers store objects in etcd
//   - etcd: the embedded member, its election and its files
//   - connections: the connections of others to this program
//   - logs: the messages of klog and zap
//   - kubectl: the command kubectl
//
// Each file states one fact in a comment of this form; no file elsewhere does:
//
//	// Upstream fact: a few words
//	//
//	// Mirrors: import/path.Function import/path.Type.Method
//	// Why: what this program needs, and why the library's exported API is not enough
//	// Gain: what a user gets from it, with a figure if it is an optimisation
//	// Breaks: what goes wrong when the symbols change, and which tests notice that
//
// A symbol may end with "#" and a word: only the statements or fields with the word count.
//
// The test of this package compares the source of every mirrored symbol with
// the hash in symbols.sum. It reads the sources only, so that it also runs when
// the rest does not compile. After a bump of a library it fails and lists the
// facts to check; `make bump` does both, and prints what has changed in each symbol.
// When they are checked,
//
//	go test ./internal/upstream -update
//
// records the new hashes.
package upstream
