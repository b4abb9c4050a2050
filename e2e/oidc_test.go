package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// provider is a running OpenID Connect issuer. Its only user is jane@example.org of the
// group devs, its clients are kube-hyper-mini and other.
type provider struct {
	*harness.Process
	url, ca string // ca is a file
}

// startProvider runs an issuer until the test ends.
func startProvider(t *testing.T) *provider {
	t.Helper()
	binary := harness.Build(t, filepath.Join(harness.Root(t), "e2e", "oidc"), "./issuer", "issuer")
	dir, address := t.TempDir(), harness.FreeAddress(t)
	p := &provider{url: "https://" + address, ca: filepath.Join(dir, "ca.crt")}
	ca := harness.NewAuthority(t, "issuer")
	harness.WriteFile(t, p.ca, string(harness.EncodeCertificate(ca.Certificate)))
	crt, key := ca.Issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "issuer"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	pair := filepath.Join(dir, "tls")
	harness.WritePair(t, pair, crt, key)
	p.Process = harness.StartProcess(t, exec.Command(binary, "-listen", address, "-cert", pair+".crt", "-key", pair+".key"))
	harness.Eventually(t, "the issuer listens", func() error {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	return p
}

// texts returns the blocks "text" of a section of a help topic.
func texts(t *testing.T, topic, heading string) []string {
	t.Helper()
	data := harness.ReadFile(t, filepath.Join(harness.Root(t), harness.Topic(topic)))
	_, section, _ := strings.Cut(string(data), heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var list []string
	for i, block := range strings.Split(section, "```") {
		if content, ok := strings.CutPrefix(block, "text\n"); ok && i%2 == 1 {
			list = append(list, content)
		}
	}
	return list
}

// TestLogin follows "OpenID Connect" of help access, with kubectl's plugin oidc-login and
// an issuer from github.com/zitadel/oidc. A program that logs in on its pages stands in
// for the browser.
func TestLogin(t *testing.T) {
	t.Parallel()
	blocks := texts(t, "access", "## OpenID Connect")
	if len(blocks) != 4 {
		t.Fatalf("the topic has %d blocks", len(blocks))
	}
	p := startProvider(t)
	ca := harness.ReadFile(t, p.ca)
	example := "-----BEGIN CERTIFICATE-----\n      ...\n      -----END CERTIFICATE-----"
	configuration := strings.ReplaceAll(blocks[1], "https://dex.example.org", p.url)
	if !strings.Contains(configuration, example) {
		t.Fatalf("the configuration has no authority:\n%s", configuration)
	}
	configuration = strings.ReplaceAll(configuration, example, strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n      "))
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	harness.WriteFile(t, file, configuration)
	config := harness.ConfigFile(t, "apiServer: {authentication: {configFile: "+file+"}}")
	s := harness.Start(t, "--config", config)

	// The programs of the user, and the kubeconfig.
	programs, modules := t.TempDir(), filepath.Join(harness.Root(t), "e2e")
	for name, program := range map[string]string{
		"kubectl":            harness.KubectlBinary(t),
		"kubectl-oidc_login": harness.Build(t, filepath.Join(modules, "kubelogin"), "github.com/int128/kubelogin", "kubelogin"),
		"browser":            harness.Build(t, filepath.Join(modules, "oidc"), "./browser", "browser"),
	} {
		if err := os.Symlink(program, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "BROWSER_CA=" + p.ca}
	shell := func(kubeconfig, commands string) (string, error) {
		t.Helper()
		return harness.RunWith(t, append(env, "KUBECONFIG="+kubeconfig), "", "sh", "-ec", commands)
	}
	if out, err := shell(s.Kubeconfig, blocks[2]); err != nil {
		t.Fatalf("bind the role: %v\n%s", err, out)
	}
	// kubeconfig runs the topic's commands, with files and a port of the test, and with the
	// version of the credentials that this release of the plugin prints.
	kubeconfig := func(client string) string {
		t.Helper()
		result := filepath.Join(t.TempDir(), "jane.kubeconfig")
		commands := strings.NewReplacer(
			"https://mini.example.org:6443", s.RESTConfig().Host, "server-ca.crt", filepath.Join(s.Dir, "pki", "server-ca.crt"),
			"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1",
			"https://dex.example.org", p.url, "client-id=kube-hyper-mini", "client-id="+client,
			"--exec-arg=get-token", "--exec-arg=get-token --exec-arg=--browser-command=browser --exec-arg=--certificate-authority="+p.ca+
				" --exec-arg=--token-cache-dir="+t.TempDir()+" --exec-arg=--listen-address="+harness.FreeAddress(t),
			"kubectl --context mini auth whoami", "kubectl config use-context mini",
		).Replace(blocks[3])
		if out, err := shell(result, commands); err != nil {
			t.Fatalf("%s: %v\n%s", commands, err, out)
		}
		return result
	}
	jane := kubeconfig("kube-hyper-mini")
	var out string
	var err error
	harness.Eventually(t, "the server has fetched the issuer's keys", func() error {
		out, err = shell(jane, "kubectl auth whoami")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	harness.Contains(t, out, "oidc:jane@example.org", "oidc:devs", "system:authenticated")
	if out, err = shell(jane, "kubectl get configmaps -n kube-system"); err != nil {
		t.Errorf("the role view does not list config maps: %v\n%s", err, out)
	}
	out, err = shell(jane, "kubectl create namespace mine")
	if err == nil {
		t.Error("the role view creates a namespace")
	}
	harness.Contains(t, out, "Forbidden", `"oidc:jane@example.org"`)

	loginFindings(t, s, p, env, kubeconfig)
}

// loginFindings checks what doctor and the log say about logins that fail.
func loginFindings(t *testing.T, s *harness.Server, p *provider, env []string, kubeconfig func(client string) string) {
	t.Helper()
	examined := func(file string) string {
		t.Helper()
		out, code := harness.CLIWith(t, env, "doctor", "--kubeconfig", file)
		if code != harness.ExitFindings {
			t.Errorf("doctor ended with exit code %d:\n%s", code, out)
		}
		return out
	}
	other := kubeconfig("other")
	if out, err := harness.RunWith(t, env, "", "kubectl", "--kubeconfig", other, "auth", "whoami"); err == nil {
		t.Errorf("a token for another server is accepted: %s", out)
	}
	s.WaitLog("expected audience")
	harness.Contains(t, examined(other), "FAILURE  credentials: "+s.RESTConfig().Host, "it refuses the credentials", "the log of the server says why", "1 finding")
	p.Stop(os.Kill)
	harness.Contains(t, examined(kubeconfig("kube-hyper-mini")), "FAILURE  ", "the command of the kubeconfig that makes the credentials fails", "1 finding")
}
