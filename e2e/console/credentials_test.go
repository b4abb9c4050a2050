package console

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// refusal is what the page shows of credentials that the API server does not accept.
const refusal = "refuses the credentials of the kubeconfig"

// TestRefusedCredentials: the page shows that the API server no longer accepts the
// kubeconfig's token, and continues when the kubeconfig has another one.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Kubectl("", "create", "serviceaccount", "robot")
	s.Kubectl("", "create", "clusterrolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
	path := filepath.Join(t.TempDir(), "robot.kubeconfig")
	login := func() {
		t.Helper()
		harness.Runs(t, 0, "kubeconfig", "create", "--service-account", "default/robot", "--data-dir", s.Dir, "-o", path)
	}
	login()
	c := launch(t, "--kubeconfig", path)
	p := open(t, c, "#/access")
	p.sees("system:serviceaccount:default:robot")
	s.Kubectl("", "delete", "serviceaccount", "robot")
	p.sees(refusal)
	s.Kubectl("", "create", "serviceaccount", "robot")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	login()
	p.lacks(refusal)
	p.sees("system:serviceaccount:default:robot")
	harness.Contains(t, c.log(t), "using the new ones of the kubeconfig")
}

// TestExpiredToken: the page shows that the token has expired, and continues after each
// login, which writes another token to the kubeconfig.
func TestExpiredToken(t *testing.T) {
	t.Parallel()
	i := harness.NewIssuer(t)
	s := harness.Authenticated(t, i.Trusted())
	s.Kubectl("", "create", "clusterrolebinding", "jane", "--clusterrole=view", "--user=oidc:jane")
	path := filepath.Join(t.TempDir(), "jane.kubeconfig")
	login := func(life time.Duration) {
		t.Helper()
		writeToken(t, s, path, i.Token(jwt.MapClaims{"exp": time.Now().Add(life).Unix()}))
	}
	login(time.Hour)
	harness.Eventually(t, "the server has fetched the issuer's keys", func() error {
		out, err := harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", path, "auth", "whoami")
		if err != nil {
			return errors.New(out)
		}
		harness.Contains(t, out, "oidc:jane")
		return nil
	})

	login(-time.Minute)
	p := open(t, launch(t, "--kubeconfig", path), "#/objects/core/v1/configmaps")
	p.sees(refusal)
	// However slow the machine is, one of the tokens lives long enough to be used.
	life, end := 5*time.Second, time.Time{}
	p.await("the page uses a token", func() error {
		if time.Now().After(end) {
			life *= 2
			end = time.Now().Add(life)
			login(life)
		}
		if text := p.text(); strings.Contains(text, refusal) || !strings.Contains(text, "kube-root-ca.crt") {
			return errors.New(text)
		}
		return nil
	})
	p.sees(refusal) // it has expired
	login(time.Hour)
	p.lacks(refusal)
	s.Kubectl("", "create", "configmap", "after")
	p.sees("after")
}

// writeToken writes a kubeconfig of the server with a token.
func writeToken(t *testing.T, s *harness.Server, path, token string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &api.AuthInfo{Token: token}
	}
	if err := clientcmd.WriteToFile(*config, path+".part"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".part", path); err != nil {
		t.Fatal(err)
	}
}

// TestListOnly: objects of a user who may not watch them are shown, and their changes
// are seen.
func TestListOnly(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Kubectl("", "create", "clusterrole", "lister", "--verb=get,list", "--resource=configmaps")
	s.Kubectl("", "create", "clusterrolebinding", "lister", "--clusterrole=lister", "--user=lister")
	path := filepath.Join(t.TempDir(), "lister.kubeconfig")
	harness.Runs(t, 0, "kubeconfig", "create", "lister", "--data-dir", s.Dir, "-o", path)
	p := open(t, launch(t, "--kubeconfig", path), "#/objects/core/v1/configmaps")
	p.sees("kube-root-ca.crt")
	p.visit("#/object/core/v1/configmaps/default/kube-root-ca.crt")
	p.sees("Metadata")
	s.Kubectl("", "label", "configmap", "kube-root-ca.crt", "seen=later")
	p.sees("later")
	p.visit("#/objects/core/v1/configmaps")
	p.sees("kube-root-ca.crt")
	s.Kubectl("", "create", "configmap", "after")
	p.sees("after")
	if text := p.text(); strings.Contains(text, "Cannot") {
		t.Errorf("the page shows a failure:\n%s", text)
	}
}
