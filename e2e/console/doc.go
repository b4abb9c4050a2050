// Package console tests `kube-hyper-mini console` in a real browser: Chromium,
// driven by its debugging protocol, on a live server.
package console
