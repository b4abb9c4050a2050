package apiserver

import (
	"fmt"
	"os"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"sigs.k8s.io/yaml"
)

// healthPaths may be asked without credentials, so that load balancers and
// probes need none.
var healthPaths = []apiserver.AnonymousAuthCondition{{Path: "/livez"}, {Path: "/readyz"}, {Path: "/healthz"}}

// allowAnonymousHealth adds anonymous access to the health endpoints, unless
// the authentication file has an opinion of its own. Upstream's default, with
// or without a file, is anonymous access to everything that RBAC gives
// system:unauthenticated, and its option for it knows no paths.
func allowAnonymousHealth(c *genericapiserver.Config, authenticationFile string) error {
	decided, err := decidesAnonymous(authenticationFile)
	if err != nil || decided {
		return err
	}
	c.Authentication.Authenticator = union.New(c.Authentication.Authenticator, anonymous.NewAuthenticator(healthPaths))
	return nil
}

func decidesAnonymous(file string) (bool, error) {
	if file == "" {
		return false, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("read the authentication configuration: %w", err)
	}
	var content struct {
		Anonymous *struct{} `json:"anonymous"`
	}
	if err := yaml.Unmarshal(data, &content); err != nil {
		return false, fmt.Errorf("read the authentication configuration %s: %w", file, err)
	}
	return content.Anonymous != nil, nil
}
