package apiserver

import (
	"fmt"
	"os"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// healthPaths are served without credentials, for load balancers and probes.
var healthPaths = []apiserver.AnonymousAuthCondition{{Path: "/livez"}, {Path: "/readyz"}, {Path: "/healthz"}}

// allowAnonymousHealth allows anonymous requests to healthPaths, unless the
// authentication file has an anonymous section. Upstream's default, with or without a
// file, allows them to everything that RBAC grants to system:unauthenticated, and its
// flag does not support paths.
func allowAnonymousHealth(c *genericapiserver.Config, authenticationFile string) error {
	configured, err := configuresAnonymous(authenticationFile)
	if err != nil || configured {
		return err
	}
	c.Authentication.Authenticator = union.New(c.Authentication.Authenticator,
		kube.WithPath(anonymous.NewAuthenticator(healthPaths)))
	return nil
}

// configuresAnonymous reports whether the authentication file has an anonymous section.
func configuresAnonymous(file string) (bool, error) {
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
