package apiserver

import (
	"errors"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

func TestErrorsOfUpstreamNameTheField(t *testing.T) {
	o := &Options{settings: Settings{
		APIServer: config.APIServer{Flags: map[string]config.Scalar{"max-requests-inflight": "-1", "max": "1"}},
		Arguments: []config.Argument{{Name: "goaway-chance", Value: "2"}},
	}}
	for text, want := range map[string]string{
		"--max-requests-inflight can not be negative value":                        "apiServer.flags.max-requests-inflight: apiServer.flags.max-requests-inflight can not be negative value",
		`enable-admission-plugins plugin "NoSuchPlugin" is unknown`:                `apiServer.admission.enablePlugins: apiServer.admission.enablePlugins plugin "NoSuchPlugin" is unknown`,
		"--audit-log-maxage can't be a negative number":                            "apiServer.audit.logMaxAge: apiServer.audit.logMaxAge can't be a negative number",
		"--goaway-chance must be between 0 and 0.02":                               "--goaway-chance: --goaway-chance must be between 0 and 0.02",
		"--runtime-config=api/all=false conflicts with --max":                      "apiServer.runtimeConfig: apiServer.runtimeConfig=api/all=false conflicts with apiServer.flags.max",
		"something about --another-flag that was not set, and the maximum":         "section: something about --another-flag that was not set, and the maximum",
		"AuthorizationConfiguration.authorizers[0].type: Unsupported value: \"x\"": "section: AuthorizationConfiguration.authorizers[0].type: Unsupported value: \"x\"",
	} {
		if got := o.fieldError("section", errors.New(text)); got.Error() != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
