package config

import (
	"strings"
	"testing"
)

func TestParseServerURL(t *testing.T) {
	for _, text := range []string{"https://mini.example.org", "https://mini.example.org:32768", "https://127.0.0.1:1/", "https://[::1]:6443"} {
		if _, err := ParseServerURL(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "mini.example.org:6443", "http://mini.example.org", "https://", "https://mini.example.org:", "https://mini.example.org:0", "https://mini.example.org:65536",
		"https://jane:secret@mini.example.org", "https://mini.example.org/api", "https://mini.example.org?a=b", "https://mini.example.org#a", "https://a b", "https://a_b!",
	} {
		if u, err := ParseServerURL(text); err == nil {
			t.Errorf("%q is %v", text, u)
		} else if !strings.Contains(err.Error(), "write https://host:port") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestExternalURL(t *testing.T) {
	for text, want := range map[string]string{
		"{externalURL: 'https://mini.example.org:32768'}":                                  "",
		"{externalURL: 'https://mini.example.org:32768', externalHost: mini.example.org}":  "",
		"{externalURL: 'https://mini.example.org:32768', externalHost: other.example.org}": "serving.externalURL: has the host mini.example.org, and serving.externalHost is other.example.org",
		"{externalURL: mini.example.org}":                                                  `serving.externalURL: "mini.example.org" is not the URL of an API server`,
		"{externalURL: 'https://mini.example.org', port: 0}":                               "serving.externalURL: needs a port that leads to this server",
	} {
		cfg, err := check(t, header+"serving: "+text+"\n")
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			continue
		}
		if err == nil {
			err = cfg.Complete()
		}
		if err != nil || cfg.Serving.ExternalHost != "mini.example.org" {
			t.Errorf("%s: the host is %q, %v", text, cfg.Serving.ExternalHost, err)
		}
	}
}
