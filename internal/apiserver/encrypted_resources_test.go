package apiserver

import (
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
)

func TestEncryptedResources(t *testing.T) {
	for resource, want := range map[string]string{
		"secrets": "", "leases.coordination.k8s.io": "", "widgets.example.com": "", "*.*": "", "*.": "", "*.example.com": "", "*.rbac.authorization.k8s.io": "",
		"secret":                          `did you mean "secrets"?`,
		"pods":                            `"pods" is not stored by this server`,
		"leases":                          `did you mean "leases.coordination.k8s.io"?`,
		"role.rbac.authorization.k8s.io":  `did you mean "roles.rbac.authorization.k8s.io"?`,
		"roles.rbac.authorisation.k8s.io": `did you mean "rbac.authorization.k8s.io"?`,
		"widgets.example":                 "groups of custom resources have a dot",
		"Widgets.example.com":             "capital letter",
		"*":                               "core API group",
		"events.events.k8s.io":            "Use 'events' instead",
		"configmaps.*":                    "the group of",
		"deployments.apps":                "the group of",
	} {
		o := &Options{config: config.Default()}
		o.config.APIServer.Encryption.Resources = []string{resource}
		err := o.checkEncryptedResources()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", resource, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "apiServer.encryption.resources")):
			t.Errorf("%s: %v, want %q", resource, err, want)
		}
	}
	o := &Options{config: config.Default()}
	o.config.APIServer.Encryption.Resources = []string{"secrets", "*."}
	if err := o.checkEncryptedResources(); err == nil {
		t.Error("a resource that a wildcard has as well was accepted")
	}
}
