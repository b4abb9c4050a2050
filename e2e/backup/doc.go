// Package backup drives `kube-hyper-mini backup` as an
// administrator does: against running and stopped servers, with damaged
// archives, through an upgrade, and out of the embedded etcd.
package backup
