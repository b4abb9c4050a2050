// Package monitoring tests the alert rules of packaging/monitoring with Prometheus' own
// engine. promtool itself is not used: it brings the clouds' SDKs. Neither are
// Prometheus' packages promqltest and rules, which bring them too.
package monitoring
