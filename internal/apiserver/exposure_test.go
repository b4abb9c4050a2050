package apiserver

import (
	"strings"
	"testing"
)

func TestExposure(t *testing.T) {
	for _, c := range []struct {
		address string
		issuers bool
		want    string // "" for nothing
	}{
		{"127.0.0.1", false, ""},
		{"::1", true, ""},
		{"0.0.0.0", false, "port 6443 of any address of this machine can connect with client certificates and service account tokens of this server; without"},
		{"::", true, "and with the methods in apiServer.authentication.configFile"},
		{"10.0.0.5", false, "hosts that reach 10.0.0.5:6443 can connect"},
		{"fd00::5", false, "[fd00::5]:6443"},
	} {
		authentication := ""
		if c.issuers {
			authentication = "authentication.yaml"
		}
		got := Exposure(c.address, authentication, "https://mini.example.org:6443")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.address, got, c.want)
		}
	}
}
