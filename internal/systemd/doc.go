// Package systemd tells a service manager how the process is, by systemd's
// sd_notify protocol: READY=1, WATCHDOG=1, STOPPING=1. Without a service manager,
// as on other platforms, it does nothing.
package systemd
