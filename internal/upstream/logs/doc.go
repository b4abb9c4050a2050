// Package logs knows the messages of klog and of etcd: how klog's lines are
// taken apart, which of them say nothing that an administrator needs, and what
// happens after a fatal one.
package logs
