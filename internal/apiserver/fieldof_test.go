package apiserver

import (
	"errors"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

func TestErrorsOfUpstreamNameTheField(t *testing.T) {
	cfg := config.Default()
	cfg.APIServer.Flags = map[string]config.Scalar{"max-requests-inflight": "-1", "max": "1"}
	cfg.APIServer.RuntimeConfig = map[string]config.Scalar{"api/all": "true", "nosuch.k8s.io/v1": "true"}
	cfg.APIServer.Admission.EnablePlugins = []string{"NoSuchPlugin"}
	cfg.APIServer.Audit.PolicyFile = "/etc/policy.yaml"
	o := &Options{config: cfg}
	for text, want := range map[string]string{
		"--max-requests-inflight can not be negative value":                        "apiServer.flags.max-requests-inflight",
		"unknown api groups nosuch.k8s.io":                                         "apiServer.runtimeConfig.nosuch.k8s.io/v1",
		`enable-admission-plugins plugin "NoSuchPlugin" is unknown`:                "apiServer.admission.enablePlugins",
		`plugin "NoSuchPlugin" is unknown`:                                         "apiServer.admission.enablePlugins",
		"--audit-log-maxage can't be a negative number":                            "apiServer.audit.logMaxAge",
		"AuthorizationConfiguration.authorizers[0].type: Unsupported value: \"x\"": "apiServer.authorization.configFile",
		"something about the maximum":                                              "apiServer",
	} {
		if got := o.fieldOf(errors.New(text)); got != want {
			t.Errorf("%q is about %s, want %s", text, got, want)
		}
	}
}
