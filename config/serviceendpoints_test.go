package config

import (
	"strings"
	"testing"
)

func TestServiceEndpointsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`[{namespace: ns, name: svc, targets: ["https://10.0.0.7:8443", "https://h.example.org", "https://[::1]:1"]}]`: "",
		`[{namespace: ns, name: svc, targets: []}]`:                                                                    "serviceEndpoints[0].targets: is empty",
		`[{namespace: ns, name: svc, targets: ["http://a:1"]}]`:                                                        `"http://a:1" is not a target`,
		`[{namespace: ns, name: svc, targets: ["https://a:1/path"]}]`:                                                  "serviceEndpoints[0].targets[0]",
		`[{namespace: ns, name: svc, targets: ["https://a:99999"]}]`:                                                   "no port from 1 to 65535",
		`[{namespace: n.s, name: svc, targets: ["https://a:1"]}]`:                                                      "is not a namespace",
		`[{namespace: ns, name: a.b, targets: ["https://a:1"]}]`:                                                       "is not the name of a Service",
		`[{namespace: ns, name: svc, targets: ["https://a:1"]}, {namespace: ns, name: svc, targets: ["https://b:1"]}]`: "is listed twice",
	} {
		_, err := check(t, header+"serviceEndpoints: "+text+"\n")
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config.yaml:3")):
			t.Errorf("%s gives %v, want %q", text, err, want)
		}
	}
}
