// Package monitoring tests the alert rules of packaging/monitoring with Prometheus'
// promtool, which is built without the service discovery that brings the clouds' SDKs.
package monitoring
