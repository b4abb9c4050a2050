package config

import (
	"fmt"
	"net"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ServiceEndpoint has the addresses of the server behind a `service:` reference
// of an APIService or a webhook. It takes precedence over the ServiceEndpoint
// object of the same namespace and name, and works before objects exist.
type ServiceEndpoint struct {
	// Namespace and Name are those of the Service that is referred to.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Targets are where its replicas listen, as https://host:port.
	Targets []string `json:"targets"`
}

// TargetAddress returns host:port of a target, https://host:port. The port may
// be left out and is 443 then.
func TargetAddress(target string) (string, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "https" || !isHost(u.Hostname()) || u.User != nil || u.Path != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is not a target; write https://host:port and nothing behind it", target)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	if !isPort(port) {
		return "", fmt.Errorf("%q has no port from 1 to 65535", target)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

func (c *ServerConfiguration) validateServiceEndpoints(fail func(path, format string, args ...any)) {
	seen := map[string]int{}
	for i, entry := range c.ServiceEndpoints {
		path := fmt.Sprintf("serviceEndpoints[%d]", i)
		if problems := validation.IsDNS1123Label(entry.Namespace); len(problems) > 0 {
			fail(path+".namespace", "%q is not a namespace: %s", entry.Namespace, problems[0])
		}
		if problems := validation.IsDNS1035Label(entry.Name); len(problems) > 0 {
			fail(path+".name", "%q is not the name of a Service: %s", entry.Name, problems[0])
		}
		if first, ok := seen[entry.Namespace+"/"+entry.Name]; ok {
			fail(path, "%s/%s is listed twice; put its targets into serviceEndpoints[%d]", entry.Namespace, entry.Name, first)
		}
		seen[entry.Namespace+"/"+entry.Name] = i
		if len(entry.Targets) == 0 {
			fail(path+".targets", "is empty; write one or more https://host:port")
		}
		for j, target := range entry.Targets {
			if _, err := TargetAddress(target); err != nil {
				fail(fmt.Sprintf("%s.targets[%d]", path, j), "%v", err)
			}
		}
	}
}
