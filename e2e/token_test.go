package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// outsider runs kubectl with the server's address, its CA, and the credentials
// only.
func outsider(t *testing.T, s *harness.Server, credentials ...string) func(args ...string) (string, error) {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	harness.WriteFile(t, ca, string(s.RESTConfig().CAData))
	access := append([]string{"--kubeconfig", os.DevNull, "--server", s.RESTConfig().Host, "--certificate-authority", ca}, credentials...)
	return func(args ...string) (string, error) {
		return harness.Run(t, "", harness.KubectlBinary(t), append(access, args...)...)
	}
}

// TestServiceAccountToken: controllers that run elsewhere connect with one.
func TestServiceAccountToken(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns := namespace(t, s)
	s.Kubectl("", "create", "serviceaccount", "robot", "-n", ns)
	name := fmt.Sprintf("system:serviceaccount:%s:robot", ns)
	tokens := map[string]string{
		"requested": s.Kubectl("", "create", "token", "robot", "-n", ns),
		"kept":      keptToken(t, s, ns),
	}
	s.Kubectl("", "create", "rolebinding", "robot", "-n", ns, "--clusterrole=edit", "--serviceaccount="+ns+":robot")
	eventuallyCan(t, s, name, ns, "create", "configmaps")
	harness.Contains(t, s.Kubectl("", "create", "token", "robot", "-n", ns, "--duration=999999h"), "shortened to 31536000 seconds")
	for kind, token := range tokens {
		kubectl := outsider(t, s, "--token", token)
		out, err := kubectl("auth", "whoami")
		if err != nil {
			t.Fatalf("the %s token is refused: %v\n%s", kind, err, out)
		}
		harness.Contains(t, out, name, "system:serviceaccounts:"+ns, "system:authenticated")
		if out, err := kubectl("create", "configmap", kind, "-n", ns); err != nil {
			t.Errorf("the %s token may not do what its role allows: %s", kind, out)
		}
		out, err = kubectl("get", "secrets", "-n", "kube-system")
		if err == nil {
			t.Errorf("the %s token may do more than its role allows: %s", kind, out)
		}
		harness.Contains(t, out, "Forbidden", name)
	}

	t.Run("another audience", func(t *testing.T) {
		token := s.For(t).Kubectl("", "create", "token", "robot", "-n", ns, "--audience=elsewhere")
		if out, err := outsider(t, s.For(t), "--token", token)("auth", "whoami"); err == nil {
			t.Errorf("a token for another audience is accepted: %s", out)
		}
	})
	t.Run("a forged one", func(t *testing.T) {
		token := tokens["requested"]
		forged := token[:len(token)-8] + "AAAAAAAA"
		if out, err := outsider(t, s.For(t), "--token", forged)("auth", "whoami"); err == nil {
			t.Errorf("a token with a wrong signature is accepted: %s", out)
		}
	})
	t.Run("of a deleted account", func(t *testing.T) {
		s := s.For(t)
		s.Kubectl("", "delete", "serviceaccount", "robot", "-n", ns)
		for kind, token := range tokens {
			kubectl := outsider(t, s, "--token", token)
			harness.Eventually(t, "the "+kind+" token is not accepted any more", func() error {
				if out, err := kubectl("auth", "whoami"); err == nil {
					return fmt.Errorf("whoami: %s", out)
				}
				return nil
			})
		}
	})
}

// keptToken has the token controller fill a secret.
func keptToken(t *testing.T, s *harness.Server, ns string) string {
	t.Helper()
	s.Kubectl(`apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: robot, annotations: {kubernetes.io/service-account.name: robot}}
`, "create", "-n", ns, "-f", "-")
	s.Await("jsonpath={.data.token}", "secret/robot", "-n", ns)
	return s.Kubectl("", "get", "secret", "robot", "-n", ns, "-o", "go-template={{.data.token | base64decode}}")
}

// TestReviewOfUnknownToken: aggregated API servers ask about tokens that this server
// has not made.
func TestReviewOfUnknownToken(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	for _, token := range []string{"unknown", "a.b.c"} {
		out := s.Kubectl("apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nspec: {token: "+token+"}\n", "create", "-f", "-", "-o", "jsonpath={.status.authenticated}{.status.user}")
		if out != "{}" && out != "false{}" {
			t.Errorf("the review of %q says %q", token, out)
		}
	}
}
