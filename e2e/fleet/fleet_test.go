package fleet

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// createNamespace tries again: while etcd finds a new leader it takes no writes.
func createNamespace(t *testing.T, s *harness.Server, name string) {
	t.Helper()
	harness.Eventually(t, "namespace "+name+" is created", func() error {
		_, err := s.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // by a try that was not acknowledged
		}
		return err
	})
}

// populated waits for what the controllers put into a new namespace.
func populated(t *testing.T, s *harness.Server, name string) {
	t.Helper()
	harness.Eventually(t, "the controllers have seen namespace "+name, func() error {
		_, err := s.Client().CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		if err == nil {
			_, err = s.Client().CoreV1().ConfigMaps(name).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		}
		return err
	})
}

func TestStopWhileEtcdIsUnreachable(t *testing.T) {
	t.Parallel()
	s := harness.Launch(t, filepath.Join(t.TempDir(), "data"), "--config", onEtcd(t, []string{freeURL(t)}, ""))
	s.WaitLog("etcd does not answer")
	if code := s.Stop(); code != 0 {
		t.Errorf("it ended with exit code %d", code)
	}
}

// TestStopAfterEtcdHasGone: the attempts to renew the identity lease do not hold up the stop.
func TestStopAfterEtcdHasGone(t *testing.T) {
	t.Parallel()
	members := cluster(t, 1)
	s := server(t, endpoints(members), "")
	members[0].kill()
	s.WaitLog("renewing this server's key in etcd failed") // later than upstream renews the lease
	if code := s.Stop(); code != 0 {
		t.Errorf("it ended with exit code %d", code)
	}
}

// TestNewTokensAreValidOnEveryServer: a token that one server has issued is
// valid on another one at once, before the caches of that one have received the
// service account.
func TestNewTokensAreValidOnEveryServer(t *testing.T) {
	t.Parallel()
	urls := endpoints(cluster(t, 1))
	first := server(t, urls, "")
	second := server(t, urls, first.Dir)
	accounts := first.Client().CoreV1().ServiceAccounts("default")
	for i := range 50 {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("robot-", i)}}
		if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := accounts.CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		config := rest.AnonymousClientConfig(second.RESTConfig())
		config.BearerToken = token.Status.Token
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("token %d is refused by the other server: %v", i, err)
		}
	}
}

// TestKilledServerStartsAgain: a server takes back the lease that it held when it was
// killed. One that waits until the lease has expired has another identity, and counts a
// transition.
func TestKilledServerStartsAgain(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has an ID of the boot")
	}
	urls := endpoints(cluster(t, 1))
	lease := func(s *harness.Server) coordinationv1.LeaseSpec {
		t.Helper()
		found, err := s.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "kube-hyper-mini-controllers", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found.Spec
	}
	killed := server(t, urls, "")
	killed.WaitLog("acquired the controller lease")
	before := lease(killed)
	killed.Kill()
	again := harness.StartIn(t, killed.Dir, "--config", onEtcd(t, urls, ""))
	again.WaitLog("acquired the controller lease")
	after := lease(again)
	if *after.HolderIdentity != *before.HolderIdentity || *after.LeaseTransitions != *before.LeaseTransitions {
		t.Errorf("the lease was %v, and is %v", before, after)
	}
	createNamespace(t, again, "after-the-kill")
	populated(t, again, "after-the-kill")
}
