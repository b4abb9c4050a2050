// Package suite is a Ginkgo suite of upstream's end-to-end specs, imported as
// they are. Only the set-up of the suite is replaced: upstream's waits for
// nodes and for pods in kube-system and reads the Service
// default/kubernetes, which a control plane without nodes does not have. For
// the same reason it does without upstream's extensions of the test framework
// that look at the nodes after every spec (framework/node/init) and at pods
// after a failure (framework/debug/init).
//
// Without --list the suite runs no spec; it only checks that it has all the
// listed ones.
package suite
