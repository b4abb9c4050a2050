package planes

import (
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestConfiguration: a control plane has the bounds of its host, so that its users cannot reach
// or cost what those of the host cannot.
func TestConfiguration(t *testing.T) {
	host := config.Default()
	host.Serving.BindAddress = "0.0.0.0"
	host.ServiceEndpointPolicy.DeniedNetworks = []string{"10.0.0.0/8"}
	host.Limits.WatchesPerUser = 7
	host.APIServer.Authentication.MaxTokenExpiration = config.Duration{Duration: time.Hour}
	got := configuration(host, Spec{Profile: config.ProfileKubernetes})
	if got.Serving.OnLoopbackOnly() {
		t.Error("it may call servers on loopback, which its host may not")
	}
	if networks := got.ServiceEndpointPolicy.DeniedNetworks; len(networks) != 1 || networks[0] != "10.0.0.0/8" {
		t.Errorf("denied networks %v", networks)
	}
	if got.Limits.WatchesPerUser != 7 || got.APIServer.Authentication.MaxTokenExpiration.Duration != time.Hour {
		t.Errorf("limits %+v, tokens %v", got.Limits, got.APIServer.Authentication.MaxTokenExpiration)
	}
	if got.APIs.Profile != config.ProfileKubernetes || got.Etcd.Embedded.QuotaBackend != host.Planes.QuotaBackend {
		t.Errorf("profile %s, quota %v", got.APIs.Profile, got.Etcd.Embedded.QuotaBackend)
	}
}
