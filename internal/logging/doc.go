// Package logging owns the process's one log: standard error, as readable
// lines or as JSON. The server's own messages use [log/slog]; klog (upstream),
// zap (etcd), grpc and OpenTelemetry are routed into the same handler.
//
// Upstream says a great deal at its level 0. Here level 0 is for the server's
// own messages, warnings and errors; upstream's informational messages start
// at -v 1.
package logging
