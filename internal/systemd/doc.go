// Package systemd reports the state of the process to a service manager with systemd's
// sd_notify protocol: READY=1, WATCHDOG=1, STOPPING=1. Without a service manager, as on
// other platforms, it does nothing.
package systemd
