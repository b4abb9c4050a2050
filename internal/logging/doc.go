// Package logging configures the log of the process: standard error, as text or as
// JSON. The server's own messages use [log/slog]; klog (Kubernetes), zap (etcd), grpc
// and OpenTelemetry write to the same handler.
//
// Level 0 is for the server's own messages, warnings and errors. Informational
// messages of Kubernetes and messages at level debug start at -v 1, those of
// etcd at -v 2. Warnings of the libraries that a healthy server makes (see
// internal/upstream/logs) are logged at level debug.
package logging
