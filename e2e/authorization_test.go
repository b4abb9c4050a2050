package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// authorizer serves an authorization webhook that allows jane, denies mallory,
// and has no opinion on others.
func authorizer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			if r.Context().Err() == nil { // otherwise the client has disconnected
				t.Error(err)
			}
			return
		}
		review.Status.Allowed = review.Spec.User == "jane"
		review.Status.Denied = review.Spec.User == "mallory"
		review.Status.Reason = "says the authorizer"
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil && r.Context().Err() == nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// authorized starts a server that asks the webhook about users' config maps,
// and RBAC about all other requests.
func authorized(t *testing.T, server *httptest.Server) *harness.Server {
	t.Helper()
	connection := api.NewConfig()
	connection.Clusters["authorizer"] = &api.Cluster{
		Server:                   server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	connection.Contexts["authorizer"], connection.CurrentContext = &api.Context{Cluster: "authorizer"}, "authorizer"
	kubeconfig := filepath.Join(t.TempDir(), "authorizer.kubeconfig")
	if err := clientcmd.WriteToFile(*connection, kubeconfig); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	content := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: authorizer
  webhook:
    timeout: 10s
    authorizedTTL: 1s
    unauthorizedTTL: 1s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions:
    - expression: "!request.user.startsWith('system:')"
    - expression: has(request.resourceAttributes) && request.resourceAttributes.resource == 'configmaps'
- type: RBAC
  name: rbac
`, kubeconfig)
	harness.WriteFile(t, file, content)
	return harness.Start(t, "--config", harness.ConfigFile(t, "apiServer: {authorization: {configFile: "+file+"}}"))
}

// TestAuthorizationConfiguration: upstream's AuthorizationConfiguration chains
// a webhook and RBAC.
func TestAuthorizationConfiguration(t *testing.T) {
	t.Parallel()
	server := authorizer(t)
	s := authorized(t, server)
	for _, user := range []string{"jane", "mallory", "peter"} {
		s.Kubectl("", "create", "clusterrolebinding", user, "--clusterrole=cluster-admin", "--user="+user)
		eventuallyCan(t, s, user, "default", "get", "secrets")
	}
	// RBAC allows mallory and peter everything and jane nothing: other answers
	// come from the webhook.
	s.Kubectl("", "delete", "clusterrolebinding", "jane")
	harness.Eventually(t, "RBAC has taken jane's rights away", func() error { return can(t, s, "jane", "default", "get", "secrets", false) })
	for user, want := range map[string]bool{"jane": true, "mallory": false, "peter": true} {
		if err := can(t, s, user, "default", "get", "configmaps", want); err != nil {
			t.Error(err)
		}
	}
	refused(t, s, "", []string{"get", "configmaps", "-n", "default", "--as", "mallory"}, "Forbidden", "says the authorizer")

	server.Close()
	harness.Eventually(t, "config maps are forbidden when the webhook cannot be reached", func() error {
		return can(t, s, "peter", "default", "get", "configmaps", false)
	})
	if err := can(t, s, "peter", "default", "get", "secrets", true); err != nil {
		t.Errorf("RBAC does not work without the webhook: %v", err)
	}
	s.Kubectl("", "get", "configmaps", "-n", "default") // as system:masters
}
