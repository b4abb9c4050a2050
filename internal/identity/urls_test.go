package identity

import (
	"net"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestURLs: clients on the server's machine use the address that it listens on.
func TestURLs(t *testing.T) {
	for _, c := range []struct {
		serving    config.Serving
		listens    string
		url, local string
	}{
		{config.Serving{BindAddress: "127.0.0.1"}, "127.0.0.1:6443", "https://127.0.0.1:6443", ""},
		{config.Serving{BindAddress: "0.0.0.0", ExternalHost: "mini.example.org"}, "[::]:7443", "https://mini.example.org:7443", "https://127.0.0.1:7443"},
		{config.Serving{BindAddress: "10.0.0.7", ExternalHost: "mini.example.org"}, "10.0.0.7:6443", "https://mini.example.org:6443", "https://10.0.0.7:6443"},
		{config.Serving{BindAddress: "::1"}, "[::1]:6443", "https://[::1]:6443", ""},
		{config.Serving{BindAddress: "0.0.0.0", ExternalURL: "https://a.example.org:32768"}, "0.0.0.0:6443", "https://a.example.org:32768", "https://127.0.0.1:6443"},
	} {
		address, err := net.ResolveTCPAddr("tcp", c.listens)
		if err != nil {
			t.Fatal(err)
		}
		if url, local, err := URLs(&c.serving, address); err != nil || url != c.url || local != c.local {
			t.Errorf("%+v: %s, %s, %v; want %s, %s", c.serving, url, local, err, c.url, c.local)
		}
	}
}
