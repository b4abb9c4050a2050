package fleet

import (
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestRotationOnSeveralServers: a rotation is refused while another server runs, which then
// accepts what is signed when it has the directory of the first.
func TestRotationOnSeveralServers(t *testing.T) {
	t.Parallel()
	urls := endpoints(cluster(t, 1))
	first := server(t, urls, "")
	second := server(t, urls, first.Dir)
	config := onEtcd(t, urls, "")
	rotate := func(code int, args ...string) string {
		return harness.Runs(t, code, append([]string{"certs", "rotate", "--data-dir", first.Dir, "--config", config}, args...)...)
	}
	first.Kubectl("", "create", "serviceaccount", "robot")
	harness.Contains(t, rotate(harness.ExitFailure, "client"), "stop the others")
	if code := second.Stop(); code != harness.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, kind := range []string{"client", "service-account"} {
		harness.Contains(t, rotate(harness.ExitOK, kind), "the old one is trusted until")
	}
	pki := filepath.Join(second.Dir, "pki")
	err := os.RemoveAll(pki)
	if err == nil {
		err = os.CopyFS(pki, os.DirFS(filepath.Join(first.Dir, "pki")))
	}
	if err != nil {
		t.Fatal(err)
	}
	second = harness.StartIn(t, second.Dir, "--config", config)

	jane := filepath.Join(t.TempDir(), "jane.kubeconfig")
	harness.Runs(t, harness.ExitOK, "kubeconfig", "create", "jane", "--data-dir", first.Dir, "--output", jane)
	user, err := clientcmd.BuildConfigFromFlags(second.RESTConfig().Host, jane)
	if err != nil {
		t.Fatal(err)
	}
	robot := rest.AnonymousClientConfig(second.RESTConfig())
	robot.BearerToken = first.Kubectl("", "create", "token", "robot")
	for name, config := range map[string]*rest.Config{"a certificate": user, "a token": robot} {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s that the first server has signed is refused by the second: %v", name, err)
		}
	}
}
