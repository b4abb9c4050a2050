// Package kubeconfig makes the administrator's kubeconfig and merges it into
// a user's own. Reading and writing the format is k8s.io/client-go's
// clientcmd; this package adds atomic replacement and the backup.
package kubeconfig
