package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// envtestAssets makes the programs of envtest.
func envtestAssets(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "assets")
	if out := harness.Runs(t, harness.ExitOK, "envtest", dir); out != "export KUBEBUILDER_ASSETS="+dir+"\n" {
		t.Errorf("it printed %q", out)
	}
	return dir
}

// startEnvtest starts what envtest starts, with its defaults.
func startEnvtest(t *testing.T) (*envtest.Environment, *kubernetes.Clientset) {
	t.Helper()
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    envtestAssets(t),
		ControlPlaneStartTimeout: harness.Patience, ControlPlaneStopTimeout: harness.Patience,
	}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("start envtest: %v", err)
	}
	t.Cleanup(func() { _ = environment.Stop() }) // a test that ends earlier has failed already
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return environment, client
}

// TestEnvtest: envtest starts kube-apiserver and etcd, which serve workloads, sign
// tokens with the given key, know the users that envtest adds, delete the content of
// namespaces, and leave no file behind.
func TestEnvtest(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	environment, client := startEnvtest(t)
	server := environment.ControlPlane.GetAPIServer()
	certificates, data := server.CertDir, environment.ControlPlane.Etcd.DataDir
	harness.Eventually(t, "the default namespace exists", func() error {
		_, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	tokensAreIssued(ctx, t, client, server.SecureServing.URL("https", "/").String())
	usersAreKnown(ctx, t, environment)

	name := "gone"
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AppsV1().Deployments(name).Create(ctx, deployment(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the namespace is gone", func() error {
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("got %w", err)
	})
	if err := environment.Stop(); err != nil {
		t.Fatalf("stop envtest: %v", err)
	}
	for _, dir := range []string{certificates, data} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left behind (%v)", dir, err)
		}
	}
}

func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}}},
	}}
}

// tokensAreIssued requests a token and has it reviewed.
func tokensAreIssued(ctx context.Context, t *testing.T, client *kubernetes.Clientset, issuer string) {
	t.Helper()
	accounts := client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("no token is issued: %v", err)
	}
	review, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil || review.Status.User.Username != "system:serviceaccount:default:robot" {
		t.Errorf("the token is of %+v (%v)", review.Status, err)
	}
	var discovery struct{ Issuer string }
	raw, err := client.RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(ctx)
	if err != nil || json.Unmarshal(raw, &discovery) != nil || discovery.Issuer != issuer {
		t.Errorf("the issuer is %s, want %s (%v)", raw, issuer, err)
	}
}

// usersAreKnown: a user that envtest adds is authenticated, and has no rights.
func usersAreKnown(ctx context.Context, t *testing.T, environment *envtest.Environment) {
	t.Helper()
	user, err := environment.AddUser(envtest.User{Name: "jane", Groups: []string{"people"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(user.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "jane"`) {
		t.Errorf("got %v", err)
	}
	anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(user.Config()))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := anonymous.RESTClient().Get().AbsPath("/healthz").DoRaw(ctx); err != nil || string(body) != "ok" {
		t.Errorf("/healthz without credentials: %s (%v)", body, err)
	}
}

// TestEnvtestWithoutControllers: KUBE_HYPER_MINI_CONTROLLERS=none leaves namespaces
// as they are, and a kube-apiserver that is started again finds the objects.
func TestEnvtestWithoutControllers(t *testing.T) {
	t.Setenv("KUBE_HYPER_MINI_CONTROLLERS", "none")
	ctx := t.Context()
	environment, client := startEnvtest(t)
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server := environment.ControlPlane.GetAPIServer()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("start kube-apiserver again: %v", err)
	}
	config, err := server.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{
		Host: server.SecureServing.URL("https", "/").String(), TLSClientConfig: rest.TLSClientConfig{CAData: server.SecureServing.CA}})
	if err != nil {
		t.Fatal(err)
	}
	if client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
	if err != nil || namespace.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("the namespace is %v (%v), want one that is Terminating", namespace.Status, err)
	}
	accounts, err := client.CoreV1().ServiceAccounts("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(accounts.Items) > 0 {
		t.Errorf("there are %d service accounts (%v)", len(accounts.Items), err)
	}
}

// TestEnvtestBadInput: messages name what is wrong, with exit code 2, and nothing is
// written. A second `envtest` on its own programs succeeds.
func TestEnvtestBadInput(t *testing.T) {
	t.Parallel()
	assets := envtestAssets(t)
	if out := harness.Runs(t, harness.ExitOK, "envtest", assets); out != "export KUBEBUILDER_ASSETS="+assets+"\n" {
		t.Errorf("the second time it printed %q", out)
	}
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "etcd"), []byte("another etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, code := harness.CLI(t, "envtest", used)
	if code == 0 {
		t.Error("a directory with a file of others was accepted")
	}
	harness.Contains(t, out, "is not empty", "name another directory")
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, "envtest"), `"kube-hyper-mini envtest" takes DIR`)
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	for line, want := range map[string]string{
		"kube-apiserver --etcd-servers=http://127.0.0.1:1 --no-such-flag=1": "unknown flag: --no-such-flag",
		"kube-apiserver --secure-port=1":                                    "--etcd-servers is missing",
		"etcd --initial-cluster=a=b":                                        "unknown flag: --initial-cluster",
		"kube-apiserver --etcd-servers=http://127.0.0.1:1":                  "--cert-dir is missing",
		"kube-apiserver --etcd-servers=http://127.0.0.1:1 --cert-dir=CERTIFICATES --service-cluster-ip-range=10.0.0.0/24": "start etcd first",
	} {
		args := strings.Fields(strings.ReplaceAll(line, "CERTIFICATES", t.TempDir()))
		cmd := exec.CommandContext(t.Context(), filepath.Join(assets, args[0]+suffix), args[1:]...)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() == 0 {
			t.Errorf("%s: it was accepted", line)
		}
		harness.Contains(t, string(out), want)
		if lines := strings.Count(string(out), "\n"); lines > 2 {
			t.Errorf("%s: the message has %d lines:\n%s", line, lines, out)
		}
	}
}
