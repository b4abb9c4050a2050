// Package logs parses the messages of klog and of etcd: the parts of klog's lines, the
// messages that need no attention, and the handling of fatal ones.
package logs
