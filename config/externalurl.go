package config

import (
	"fmt"
	"net/url"
	"strings"
)

// ExternalURLVariable is the environment variable that overrides serving.externalURL
// and serving.externalHost.
const ExternalURLVariable = "KUBE_HYPER_MINI_EXTERNAL_URL"

// SetExternalURL sets ExternalURL, and takes ExternalHost from it.
func (s *Serving) SetExternalURL(text string) { s.ExternalURL, s.ExternalHost = text, "" }

// ParseServerURL parses the URL of an API server: https, a host, a port or none, and
// nothing else.
func ParseServerURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || !isHost(u.Hostname()) || u.Port() != "" && !isPort(u.Port()) ||
		strings.HasSuffix(u.Host, ":") ||
		u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not the URL of an API server; write https://host:port", text)
	}
	return u, nil
}

// CheckSAN returns an error for what cannot be a name of the serving certificate.
func CheckSAN(name string) error {
	if !isHost(strings.TrimPrefix(name, "*.")) {
		return fmt.Errorf("%q is neither a DNS name nor an IP address", name)
	}
	return nil
}

// completeExternalURL takes the host from the URL.
func (s *Serving) completeExternalURL() {
	if u, err := ParseServerURL(s.ExternalURL); err == nil {
		s.ExternalURL = "https://" + u.Host
		if s.ExternalHost == "" {
			s.ExternalHost = u.Hostname()
		}
	}
}

func (s *Serving) validateExternalURL(fail func(path, format string, args ...any)) {
	if s.ExternalURL == "" {
		return
	}
	u, err := ParseServerURL(s.ExternalURL)
	switch {
	case err != nil:
		fail("serving.externalURL", "%v", err)
	case s.ExternalHost != "" && s.ExternalHost != u.Hostname():
		fail("serving.externalURL", "has the host %s, and serving.externalHost is %s: set one of them",
			u.Hostname(), s.ExternalHost)
	case s.Port == 0:
		fail("serving.externalURL", "needs a port that leads to this server: set serving.port or --port, which is 0 "+
			"(a free one)")
	}
}
