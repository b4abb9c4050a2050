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

// rotateAndCopy rotates what signs the credentials of users on the first server, while the second
// is stopped. Started with the directory of the first, that accepts what is signed.
func rotateAndCopy(t *testing.T, first, second *harness.Server, config string) *harness.Server {
	t.Helper()
	for _, kind := range []string{"client", "service-account"} {
		out := harness.Runs(t, harness.ExitOK, "certs", "rotate", kind, "--data-dir", first.Dir, "--config", config)
		harness.Contains(t, out, "the old one is trusted until")
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

	first.Kubectl("", "create", "serviceaccount", "robot")
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
	return second
}
