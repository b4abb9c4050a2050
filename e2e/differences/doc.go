// Package differences compares this server with kube-apiserver: its bootstrap
// policy with the one that kube-apiserver's post-start hook creates, and
// kube-apiserver's own flags with the list of differences in
// internal/apiserver/DIFFERENCES.md. The unit test beside that list compares the
// rest; the product may not import kube-apiserver's command.
package differences
