package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// withPlanes is a server with the control planes of the names, which exist and sleep.
func withPlanes(t *testing.T, names ...string) *harness.Server {
	t.Helper()
	s := harness.Start(t, "--config", filepath.Join(harness.Root(t), "config", "examples", "planes", "config.yaml"))
	for _, name := range names {
		s.Kubectl(fmt.Sprintf("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: %s}, spec: {sleepAfter: 1s}}", name), "create", "-f", "-")
		s.Await("jsonpath={.status.phase}=Asleep", "controlplane", name)
	}
	return s
}

// TestKubectlOfAPlane: `kubectl --plane` acts in that control plane, and nowhere else.
func TestKubectlOfAPlane(t *testing.T) {
	t.Parallel()
	s := withPlanes(t, "acme", "beta")
	kubectl := func(args ...string) []string { return append([]string{"kubectl", "--data-dir", s.Dir}, args...) }
	get := []string{"get", "configmap", "only-in-acme", "-o", "name"}
	harness.Runs(t, harness.ExitOK, kubectl("--plane", "acme", "create", "configmap", "only-in-acme")...)
	harness.Contains(t, harness.Runs(t, harness.ExitOK, kubectl(append([]string{"--plane=acme"}, get...)...)...), "configmap/only-in-acme")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, kubectl(append([]string{"--plane", "beta"}, get...)...)...), `configmaps "only-in-acme" not found`)
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, kubectl(get...)...), `configmaps "only-in-acme" not found`)
	harness.Contains(t, harness.Runs(t, harness.ExitOK, kubectl("--plane", "acme", "auth", "whoami")...), "host:admin")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, kubectl("--plane", "nowhere", "get", "namespaces")...), "no control plane nowhere")
	s.Kubectl("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: unmade}, spec: {from: {controlPlane: nowhere}}}", "create", "-f", "-")
	s.Await("jsonpath={.status.phase}=Failed", "controlplane", "unmade")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, kubectl("--plane", "unmade", "get", "namespaces")...), "kubectl get controlplane unmade -o wide")
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, kubectl("--plane", "../acme", "get", "namespaces")...), "not the name of a ControlPlane")
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, kubectl("--plane", "acme", "get", "namespaces", "--kubeconfig", s.Kubeconfig)...), "leave one out")
}

// TestProxyOfAPlane: `kubectl proxy` with --plane serves that control plane, not the server.
func TestProxyOfAPlane(t *testing.T) {
	t.Parallel()
	s := withPlanes(t, "acme")
	harness.Runs(t, harness.ExitOK, "kubectl", "--data-dir", s.Dir, "--plane", "acme", "create", "configmap", "only-in-acme")
	socket := filepath.Join(t.TempDir(), "proxy")
	harness.StartProcess(t, exec.Command(harness.Binary(t), "kubectl", "--data-dir", s.Dir, "--plane", "acme", "proxy", "--unix-socket", socket))
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	harness.Eventually(t, "the proxy has the config map of acme", func() error {
		answer, err := client.Get("http://localhost/api/v1/namespaces/default/configmaps/only-in-acme")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}

// TestUnknownPlane: commands say that the server has no such control plane, and give nothing for it.
func TestUnknownPlane(t *testing.T) {
	t.Parallel()
	s := withPlanes(t)
	for _, args := range [][]string{{"kubeconfig"}, {"console", "--no-browser"}, {"backup", "save"}, {"backup", "list"}, {"backup", "restore", "acme.tar.gz"}} {
		harness.Contains(t, harness.Runs(t, harness.ExitFailure, append(args, "--data-dir", s.Dir, "--plane", "nowhere")...), "there is no control plane nowhere", "get controlplanes")
	}
}

// TestStatusOfAPlane: `status --plane` prints the URL of that control plane, as its ControlPlane does.
func TestStatusOfAPlane(t *testing.T) {
	t.Parallel()
	s := withPlanes(t, "acme")
	url := s.Kubectl("", "get", "controlplane", "acme", "-o", "jsonpath={.status.url}")
	harness.Contains(t, url, "https://", "/clusters/acme")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "status", "--data-dir", s.Dir, "--plane", "acme"), url+" (pid")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "status", "--kubeconfig", s.Kubeconfig, "--plane", "acme", "-o", "json"), `"server": "`+url+`"`)
}

// TestCountsOfTheServerOfPlanes: a control plane that falls asleep leaves the server's counts of
// objects in the metrics.
func TestCountsOfTheServerOfPlanes(t *testing.T) {
	t.Parallel()
	s := withPlanes(t, "acme")
	harness.Runs(t, harness.ExitOK, "kubectl", "--data-dir", s.Dir, "--plane", "acme", "get", "namespaces")
	s.Await("jsonpath={.status.objects}", "controlplane", "acme") // counted when it falls asleep
	harness.Contains(t, s.Kubectl("", "get", "--raw", "/metrics"), `apiserver_resource_objects{group="",resource="namespaces"}`)
}

// TestUndeleteInAPlane: `history` and `undelete` with --plane read the journal of that control
// plane: the server's has the objects of others, under the same names.
func TestUndeleteInAPlane(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, interval: 100ms}\nplanes: {enabled: true, journal: %q}\n",
		filepath.Join(dir, "server"), filepath.Join(dir, "planes"))))
	for name, spec := range map[string]string{"acme": "{journal: {}}", "plain": "{}"} {
		s.Kubectl(fmt.Sprintf("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: %s}, spec: %s}", name, spec), "create", "-f", "-")
		s.Await("condition=Ready", "controlplane", name)
	}
	create, remove := []string{"create", "configmap", "same", "--from-literal"}, []string{"delete", "configmap", "same"}
	s.Kubectl("", append(create, "who=server")...)
	s.Kubectl("", s.InPlane("acme", append(create, "who=acme")...)...)
	s.Kubectl("", remove...)
	s.Kubectl("", s.InPlane("acme", remove...)...)
	command := func(name string) []string {
		return []string{"configmap", "same", "-n", "default", "--data-dir", s.Dir, "--plane", name}
	}
	harness.Eventually(t, "the deletion is in the journal of acme", func() error {
		if out, code := harness.CLI(t, append([]string{"history", "get"}, command("acme")...)...); code != 0 || !strings.Contains(out, "deleted") {
			return errors.New(out)
		}
		return nil
	})
	harness.Runs(t, harness.ExitOK, append([]string{"undelete"}, command("acme")...)...)
	harness.Contains(t, s.Kubectl("", s.InPlane("acme", "get", "configmap", "same", "-o", "jsonpath={.data.who}")...), "acme")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, append([]string{"undelete"}, command("plain")...)...), "spec.journal is not set")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, append([]string{"undelete"}, command("nowhere")...)...), "there is no control plane nowhere")
}

// TestCertificatesOfAPlane: `certs --plane` lists and replaces those of one control plane. Who
// is revoked there is refused, also after a sleep; its other users and those of other control
// planes are not concerned.
func TestCertificatesOfAPlane(t *testing.T) {
	t.Parallel()
	s := withPlanes(t, "acme", "beta")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "certs", "list", "--data-dir", s.Dir, "--plane", "nowhere"), "nowhere does not exist")
	clients := map[string]*runningClient{"the administrator on the server": newClient(t, "", planeKubeconfig(t, s, "acme", ""), true)}
	for _, plane := range []string{"acme", "beta"} {
		clients["jane of "+plane] = newClient(t, "", createKubeconfig(t, s, "jane", "--plane", plane), true)
		clients["a service account of "+plane] = newClient(t, "", createKubeconfig(t, s, "--plane", plane, "--service-account", "default/default"), true)
		clients["the administrator of "+plane] = newClient(t, "", planeKubeconfig(t, s, plane, filepath.Join(s.Dir, "planes", plane, "pki")), true)
	}
	refused := map[string]bool{}
	check := func(what string) {
		t.Helper()
		for name, client := range clients {
			harness.Eventually(t, what+", "+name+" is as expected", func() error {
				err := client.ask(t.Context())
				if (err != nil) == refused[name] {
					return nil
				}
				return fmt.Errorf("the error is %v", err)
			})
		}
	}
	check("at first")
	before, ofBeta := certs(t, s, "list", "--plane", "acme"), certs(t, s, "list", "--plane", "beta")
	harness.Contains(t, before, "client-ca", "service-account")
	harness.Contains(t, certs(t, s, "revoke-admin", "--plane", "acme"), "administrator of acme")
	refused["the administrator of acme"] = true
	check("after the revocation")
	s.Await("jsonpath={.status.phase}=Asleep", "controlplane", "acme")
	check("after a sleep")
	harness.Contains(t, certs(t, s, "rotate", "client", "--plane", "acme", "--overlap", "0s"), "no longer trusted")
	refused["jane of acme"] = true
	check("after the rotation of the clients' authority")
	certs(t, s, "rotate", "service-account", "--plane", "acme", "--overlap", "0s")
	refused["a service account of acme"] = true
	check("after that of the token key")
	again := newClient(t, "jane again", createKubeconfig(t, s, "jane", "--plane", "acme"), true)
	if err := again.ask(t.Context()); err != nil {
		t.Errorf("a new certificate for jane: %v", err)
	}
	if now := certs(t, s, "list", "--plane", "acme"); now == before {
		t.Errorf("the list is as before:\n%s", now)
	}
	if now := certs(t, s, "list", "--plane", "beta"); now != ofBeta {
		t.Errorf("the certificates of beta were\n%sand are\n%s", ofBeta, now)
	}
}

// TestBackupsOfAPlane: `backup list --plane` has the backups of that control plane only, and says how
// its journal is listed. `backup restore --plane` restores it while it sleeps, and the others serve.
func TestBackupsOfAPlane(t *testing.T) {
	t.Parallel()
	journals := t.TempDir()
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("journal: {interval: 100ms}\nplanes: {enabled: true, journal: %q}\n", journals)))
	inPlane := func(code int, plane string, args ...string) string {
		t.Helper()
		return harness.Runs(t, code, append([]string{args[0], args[1], "--data-dir", s.Dir, "--plane", plane}, args[2:]...)...)
	}
	for _, name := range []string{"acme", "beta"} {
		s.Kubectl(fmt.Sprintf("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: %s}, spec: {sleepAfter: 3s, journal: {}}}", name), "create", "-f", "-")
		s.Await("condition=Ready", "controlplane", name)
	}
	s.Kubectl("", s.InPlane("acme", "create", "configmap", "before")...)
	inPlane(harness.ExitOK, "acme", "backup", "save")
	s.Kubectl("", s.InPlane("acme", "create", "configmap", "after")...)
	harness.Contains(t, inPlane(harness.ExitOK, "beta", "backup", "list"), "no backups in ")
	list := inPlane(harness.ExitOK, "acme", "backup", "list")
	file := strings.TrimSpace(list[strings.LastIndex(list, " ")+1:])
	harness.Contains(t, file, filepath.Join("planes", "acme", "manual-"))
	journal := filepath.Join(journals, s.Kubectl("", "get", "controlplane", "acme", "-o", "jsonpath={.status.journal}"))
	harness.Contains(t, list, "backup list --from "+journal)
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "list", "--from", journal), "CHAIN")

	s.Kubectl("", s.InPlane("acme", "get", "namespaces")...)
	harness.Contains(t, inPlane(harness.ExitFailure, "acme", "backup", "restore", file), "acme: it is awake: wait until", "spec.from")
	s.Await("jsonpath={.status.phase}=Asleep", "controlplane", "acme")
	harness.Contains(t, inPlane(harness.ExitOK, "acme", "backup", "restore", file), "restored "+filepath.Join(s.Dir, "planes", "acme"))
	s.Kubectl("", s.InPlane("acme", "get", "configmap", "before")...)
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "kubectl", "--data-dir", s.Dir, "--plane", "acme", "get", "configmap", "after"), "not found")
}

// TestRestoreOfTheServerOfPlanes: a restore of the server leaves its control planes as they are. One
// of the server's backup into a control plane says that the authority changes.
func TestRestoreOfTheServerOfPlanes(t *testing.T) {
	t.Parallel()
	s, saved := withPlanes(t, "acme"), filepath.Join(t.TempDir(), "server.tar.gz")
	harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", s.Dir, saved)
	harness.Runs(t, harness.ExitOK, "kubectl", "--data-dir", s.Dir, "--plane", "acme", "create", "configmap", "later")
	s.Stop()
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, saved), "the control planes in "+filepath.Join(s.Dir, "planes"))
	again := harness.StartIn(t, s.Dir, "--config", filepath.Join(harness.Root(t), "config", "examples", "planes", "config.yaml"))
	harness.Runs(t, harness.ExitOK, "kubectl", "--data-dir", s.Dir, "--plane", "acme", "get", "configmap", "later")
	again.Stop()
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", filepath.Join(s.Dir, "planes", "acme"), saved), "authority differs from the previous one")
}

// TestDoctorOfAPlane: `doctor --plane` checks the directory of that control plane, also while the
// server is stopped, and says that there is none of the name.
func TestDoctorOfAPlane(t *testing.T) {
	t.Parallel()
	s := withPlanes(t, "acme")
	harness.Runs(t, harness.ExitOK, "kubectl", "--data-dir", s.Dir, "--plane", "acme", "get", "namespaces")
	key := filepath.Join(s.Dir, "planes", "acme", "pki", "admin.key")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	doctor := func(code int, plane string) string {
		t.Helper()
		return harness.Runs(t, code, "doctor", "--data-dir", s.Dir, "--plane", plane)
	}
	harness.Contains(t, doctor(harness.ExitFindings, "acme"), key)
	harness.Contains(t, doctor(harness.ExitFailure, "nowhere"), "no control plane nowhere")
	s.Stop()
	harness.Contains(t, doctor(harness.ExitFindings, "acme"), key, "is stopped")
}

// planeKubeconfig is the administrator's kubeconfig for a control plane, with the certificate of
// the administrator in the directory, or with that of the server's.
func planeKubeconfig(t *testing.T, s *harness.Server, plane, dir string) []byte {
	t.Helper()
	config, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server += "/clusters/" + plane
	}
	for _, user := range config.AuthInfos {
		if dir != "" {
			user.ClientCertificateData, user.ClientKeyData = harness.ReadFile(t, filepath.Join(dir, "admin.crt")), harness.ReadFile(t, filepath.Join(dir, "admin.key"))
		}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
