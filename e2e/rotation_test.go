package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// runningClient repeats a request that returns its user.
type runningClient struct {
	name    string
	client  *kubernetes.Clientset
	answers atomic.Int64
	failure atomic.Pointer[error]
}

// newClient is the client of a kubeconfig. With fresh connections, each request
// verifies certificates again.
func newClient(t *testing.T, name string, kubeconfig []byte, fresh bool) *runningClient {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var transport http.RoundTripper = &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: fresh, ForceAttemptHTTP2: !fresh}
	if transport, err = rest.HTTPWrappersForConfig(config, transport); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, &http.Client{Transport: transport, Timeout: harness.Patience})
	if err != nil {
		t.Fatal(err)
	}
	return &runningClient{name: name, client: client}
}

func (c *runningClient) ask(ctx context.Context) error {
	_, err := c.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return err
}

// run sends requests until ctx ends.
func (c *runningClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.ask(ctx); err != nil && ctx.Err() == nil {
			err = fmt.Errorf("after %d answers: %w", c.answers.Load(), err)
			c.failure.CompareAndSwap(nil, &err)
			return
		}
		c.answers.Add(1)
		select { // leaves the processor to others
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// moreAnswers waits until each client has been answered some more times.
func moreAnswers(t *testing.T, clients []*runningClient) {
	t.Helper()
	for _, c := range clients {
		before := c.answers.Load()
		harness.Eventually(t, c.name+" is answered", func() error {
			if c.failure.Load() == nil && c.answers.Load() < before+5 {
				return errors.New("not yet")
			}
			return nil
		})
		if failure := c.failure.Load(); failure != nil {
			t.Errorf("%s: %v", c.name, *failure)
		}
	}
}

// withToken is the kubeconfig of a service account.
func withToken(t *testing.T, s *harness.Server, account string) []byte {
	t.Helper()
	return createKubeconfig(t, s, "--service-account", account)
}

func createKubeconfig(t *testing.T, s *harness.Server, args ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "created.kubeconfig")
	harness.Runs(t, harness.ExitOK, append([]string{"kubeconfig", "create", "--data-dir", s.Dir, "--output", file}, args...)...)
	return harness.ReadFile(t, file)
}

func certs(t *testing.T, s *harness.Server, args ...string) string {
	t.Helper()
	return harness.Runs(t, harness.ExitOK, append([]string{"certs", args[0], "--data-dir", s.Dir}, args[1:]...)...)
}

// TestRotation: authorities and the token key are replaced under clients, none
// of which fails; at the end of the overlap, only the new ones count.
func TestRotation(t *testing.T) {
	t.Parallel()
	port := fmt.Sprint(harness.FreePort(t))
	s := harness.Start(t, "--port", port)
	s.Kubectl("", "create", "serviceaccount", "robot")
	kept := keptToken(t, s, "default")
	old := harness.ReadFile(t, s.Kubeconfig)
	jane := userKubeconfig(t, s, "jane")
	clients := []*runningClient{
		newClient(t, "the administrator on fresh connections", old, true),
		newClient(t, "the administrator on one connection", old, false),
		newClient(t, "a user with a certificate", jane, true),
		newClient(t, "a service account", withToken(t, s, "default/robot"), true),
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(func() { c.run(ctx) })
	}
	defer running.Wait()
	defer stop()

	oldCA := string(harness.ReadFile(t, filepath.Join(s.Dir, "pki", "server-ca.crt")))
	var joe []byte
	kinds := []string{"server", "client", "front-proxy", "service-account"}
	for _, kind := range kinds {
		harness.Contains(t, certs(t, s, "rotate", kind), kind+": the old one is trusted until ")
		moreAnswers(t, clients)
		// What the new one signs is accepted at once.
		joe = userKubeconfig(t, s, "joe")
		for name, kubeconfig := range map[string][]byte{"the administrator": harness.ReadFile(t, s.Kubeconfig), "a new user": joe, "a new token": withToken(t, s, "default/robot")} {
			if err := newClient(t, name, kubeconfig, true).ask(t.Context()); err != nil {
				t.Errorf("after the rotation of %s, %s: %v", kind, name, err)
			}
		}
	}
	harness.Contains(t, certs(t, s, "list"), "signs client certificates", "dropped at", "verifies service account tokens")
	awaitRootCA(t, s, string(harness.ReadFile(t, filepath.Join(s.Dir, "pki", "server-ca.crt"))))
	if problems := harness.Problems(s.Log()); problems != "" {
		t.Errorf("the rotations logged:\n%s", problems)
	}
	if out, code := harness.CLI(t, "certs", "rotate", "client", "--data-dir", s.Dir); code != harness.ExitFailure || !strings.Contains(out, "--finish") {
		t.Errorf("a second rotation in the overlap: exit code %d, %s", code, out)
	}

	// The overlap outlives a restart, which must find the same address.
	stop()
	running.Wait()
	if code := s.Stop(); code != harness.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	s = harness.StartIn(t, s.Dir, "--port", port)
	for _, c := range clients {
		if err := c.ask(t.Context()); err != nil {
			t.Errorf("after a restart, %s: %v", c.name, err)
		}
	}

	for _, kind := range kinds {
		certs(t, s, "rotate", kind, "--finish")
	}
	newCA := string(harness.ReadFile(t, filepath.Join(s.Dir, "pki", "server-ca.crt")))
	if strings.Contains(newCA, strings.TrimSpace(oldCA)) {
		t.Error("the old authority of servers is still trusted")
	}
	awaitRootCA(t, s, newCA)
	for _, c := range clients {
		harness.Eventually(t, c.name+" is refused with what it had before", func() error {
			if c.ask(t.Context()) == nil {
				return errors.New("it is answered")
			}
			return nil
		})
	}
	for name, kubeconfig := range map[string][]byte{"the administrator's new kubeconfig": harness.ReadFile(t, s.Kubeconfig), "a user of the overlap": joe} {
		if err := newClient(t, name, kubeconfig, true).ask(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, err := outsider(t, s, "--token", kept)("auth", "whoami"); err == nil {
		t.Errorf("a token in a secret outlives its key: %s", out)
	}
	awaitAuthenticationConfig(t, s)
}

func userKubeconfig(t *testing.T, s *harness.Server, name string) []byte {
	t.Helper()
	return createKubeconfig(t, s, name)
}

// awaitRootCA waits until each namespace has the authorities.
func awaitRootCA(t *testing.T, s *harness.Server, want string) {
	t.Helper()
	harness.Eventually(t, "kube-root-ca.crt has the authorities", func() error {
		list, err := s.Client().CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=kube-root-ca.crt"})
		if err != nil {
			return err
		}
		for _, found := range list.Items {
			if found.Data["ca.crt"] != want {
				return fmt.Errorf("in %s it has others", found.Namespace)
			}
		}
		if len(list.Items) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}

// awaitAuthenticationConfig waits until the config map for aggregated API servers has
// what this server trusts, and nothing else.
func awaitAuthenticationConfig(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, "aggregated API servers trust the new authorities only", func() error {
		found, err := s.Client().CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for key, file := range map[string]string{"client-ca-file": "client-ca.crt", "requestheader-client-ca-file": "front-proxy-ca.crt"} {
			want := string(harness.ReadFile(t, filepath.Join(s.Dir, "pki", file)))
			if strings.TrimSpace(found.Data[key]) != strings.TrimSpace(want) {
				return fmt.Errorf("%s has %d certificates, want that of %s", key, strings.Count(found.Data[key], "BEGIN"), file)
			}
		}
		return nil
	})
}

// TestRotationContinuesAfterAKill: wherever the kill hits, the next start continues, old
// credentials work, and the rotation can be ended.
func TestRotationContinuesAfterAKill(t *testing.T) {
	t.Parallel()
	port := fmt.Sprint(harness.FreePort(t))
	s := harness.Start(t, "--port", port)
	old := harness.ReadFile(t, s.Kubeconfig)
	var rotating sync.WaitGroup
	rotating.Go(func() { harness.CLI(t, "certs", "rotate", "client", "--data-dir", s.Dir) })
	harness.Eventually(t, "the rotation has begun", func() error {
		_, err := os.Stat(filepath.Join(s.Dir, "pki", "rotations.json"))
		return err
	})
	s.Kill()
	rotating.Wait()
	s = harness.StartIn(t, s.Dir, "--port", port)
	s.Kubectl("", "get", "namespaces")
	admin := newClient(t, "the old administrator", old, true)
	if err := admin.ask(t.Context()); err != nil {
		t.Errorf("%s: %v", admin.name, err)
	}
	if out, code := harness.CLI(t, "certs", "rotate", "client", "--data-dir", s.Dir, "--finish"); code != harness.ExitOK {
		harness.Contains(t, out, "complete it with") // the kill came before the switch
		certs(t, s, "rotate", "client")
		certs(t, s, "rotate", "client", "--finish")
	}
	harness.Eventually(t, "the old certificate is refused", func() error {
		if admin.ask(t.Context()) == nil {
			return errors.New("it is accepted")
		}
		return nil
	})
	s.Kubectl("", "get", "namespaces")
}

// TestRotationOfAStoppedServer: without an overlap, and with mistakes.
func TestRotationOfAStoppedServer(t *testing.T) {
	t.Parallel()
	port := fmt.Sprint(harness.FreePort(t))
	s := harness.Start(t, "--port", port)
	old := harness.ReadFile(t, s.Kubeconfig)
	s.Stop()
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, "certs", "rotate", "etcd", "--data-dir", s.Dir), "allowed: client, front-proxy, server, service-account")
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, "certs", "rotate", "client", "--overlap", "-1s", "--data-dir", s.Dir), "negative")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "certs", "rotate", "client", "--finish", "--data-dir", s.Dir), "client is not being rotated")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "certs", "list", "--data-dir", t.TempDir()), "not a data directory")
	external := harness.ConfigFile(t, "etcd: {external: {endpoints: ['http://127.0.0.1:1']}}")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "certs", "rotate", "client", "--config", external, "--data-dir", s.Dir), "stop the others")
	certs(t, s, "rotate", "client", "--overlap", "0s")
	s = harness.StartIn(t, s.Dir, "--port", port)
	s.Kubectl("", "get", "namespaces")
	if err := newClient(t, "an old one", old, true).ask(t.Context()); err == nil {
		t.Error("the old kubeconfig works")
	}
}

// TestRevokeAdmin: what the administrator had is refused at once, also by a server that is
// restored from the journal of one that stopped next, and others are not concerned.
func TestRevokeAdmin(t *testing.T) {
	t.Parallel()
	port, journal := fmt.Sprint(harness.FreePort(t)), t.TempDir()
	config := harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, interval: 100ms}\n", journal))
	s := harness.Start(t, "--port", port, "--config", config)
	admin := newClient(t, "the administrator of before", harness.ReadFile(t, s.Kubeconfig), false)
	jane := newClient(t, "a user", userKubeconfig(t, s, "jane"), false)
	for _, c := range []*runningClient{admin, jane} {
		if err := c.ask(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	revoked := filepath.Join(t.TempDir(), "revoked.kubeconfig")
	harness.WriteFile(t, revoked, string(harness.ReadFile(t, s.Kubeconfig)))
	harness.Contains(t, certs(t, s, "revoke-admin"), s.Kubeconfig)
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "kubeconfig", "create", "joe", "--kubeconfig", revoked), "refuses the credentials", "revoked")
	if err := admin.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("%s got: %v", admin.name, err)
	}
	if err := jane.ask(t.Context()); err != nil {
		t.Errorf("%s: %v", jane.name, err)
	}
	s.Kubectl("", "get", "namespaces")
	s.Stop()
	restored := filepath.Join(t.TempDir(), "restored")
	harness.Runs(t, harness.ExitOK, "backup", "restore", "--from", journal, "--data-dir", restored)
	for _, dir := range []string{s.Dir, restored} {
		s = harness.StartIn(t, dir, "--port", port)
		if err := admin.ask(t.Context()); err == nil {
			t.Errorf("the server of %s accepts the administrator's old certificate", dir)
		}
		s.Kubectl("", "get", "namespaces")
		s.Stop()
	}
}

// TestLostIdentity: a used data directory does not get another identity, unless
// it is requested.
func TestLostIdentity(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", s.Dir)
	s.Stop()
	if err := os.Rename(filepath.Join(s.Dir, "pki"), filepath.Join(t.TempDir(), "pki")); err != nil {
		t.Fatal(err)
	}
	out := harness.Runs(t, harness.ExitFailure, "server", "--data-dir", s.Dir, "--port", "0")
	harness.Contains(t, out, "pki/client-ca.crt", "pki/service-account.key", "missing", filepath.Join(s.Dir, "backups", "manual-"), "--new-identity")
	if _, err := os.Stat(filepath.Join(s.Dir, "pki")); err == nil {
		t.Error("the refused start has made a new identity")
	}
	harness.StartIn(t, s.Dir, "--new-identity").Kubectl("", "get", "namespaces")
}

// TestCertificatesFromTheFuture: certificates of a clock that was ahead are renewed with a
// line in the log.
func TestCertificatesFromTheFuture(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Stop()
	for name, authority := range map[string]string{"apiserver": "server-ca", "admin": "client-ca"} {
		resign(t, s.Dir, name, authority, 48*time.Hour)
	}
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "certs", "list", "--data-dir", s.Dir), "NOT VALID before")
	s = harness.StartIn(t, s.Dir)
	harness.Contains(t, s.Log(), "certificates renewed", "not valid before")
	s.Kubectl("", "get", "namespaces")
}

// TestTokenSecretIsRecreatedAfterRotation: it is signed with the new key then.
func TestTokenSecretIsRecreatedAfterRotation(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Kubectl("", "create", "serviceaccount", "robot")
	old := keptToken(t, s, "default")
	certs(t, s, "rotate", "service-account")
	harness.Eventually(t, "the token of the secret is made again", func() error {
		if _, err := s.TryKubectl("", "patch", "secret", "robot", "--type=json", "-p", `[{"op":"remove","path":"/data/token"}]`); err != nil {
			return err
		}
		s.Await("jsonpath={.data.token}", "secret/robot")
		if s.Kubectl("", "get", "secret", "robot", "-o", "go-template={{.data.token | base64decode}}") == old {
			return errors.New("it is that of before: the controller has not followed yet")
		}
		return nil
	})
	certs(t, s, "rotate", "service-account", "--finish")
	token := s.Kubectl("", "get", "secret", "robot", "-o", "go-template={{.data.token | base64decode}}")
	if out, err := outsider(t, s, "--token", token)("auth", "whoami"); err != nil {
		t.Errorf("the new token is refused: %s", out)
	}
}
