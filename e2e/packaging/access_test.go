package packaging

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func TestKubeconfigOfAUser(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	file := filepath.Join(t.TempDir(), "jane.kubeconfig")
	out, code := harness.CLI(t, "kubeconfig", "create", "jane", "--group", "developers", "--group", "on call", "--expires", "48h", "--data-dir", s.Dir, "--output", file)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	_, until, found := strings.Cut(out, " until ")
	end, err := time.ParseInLocation(time.DateTime, strings.TrimSpace(strings.SplitN(until, "\n", 2)[0]), time.Local)
	if !found || err != nil {
		t.Fatalf("no end in %v:\n%s", err, out)
	}
	// The signer counts from some minutes ago, for clocks that differ.
	if life := time.Until(end); life < 47*time.Hour || life > 49*time.Hour {
		t.Errorf("the life is %s", life)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	user := harness.WhoAmI(t, config)
	if groups := "," + strings.Join(user.Groups, ",") + ","; user.Username != "jane" || !strings.Contains(groups, ",developers,") || !strings.Contains(groups, ",on call,") {
		t.Errorf("the server sees %s in %s", user.Username, groups)
	}
	// No rights before RBAC gives them, and rights by the group afterwards.
	kubectl := func(args ...string) (string, error) {
		return harness.Run(t, "", harness.KubectlBinary(t), append([]string{"--kubeconfig", file}, args...)...)
	}
	if out, err := kubectl("get", "configmaps", "-n", "default"); err == nil || !strings.Contains(out, "forbidden") {
		t.Errorf("a new user may read: %v\n%s", err, out)
	}
	s.Kubectl("", "create", "clusterrolebinding", "developers", "--clusterrole=view", "--group=developers")
	harness.Eventually(t, "the binding counts", func() error {
		_, err := kubectl("get", "configmaps", "-n", "default")
		return err
	})
	if out := s.Kubectl("", "get", "csr", "-o", "name"); strings.TrimSpace(out) != "" {
		t.Errorf("requests were left behind: %s", out)
	}
}

func TestInClusterConfigurationOfAController(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Kubectl("", "create", "namespace", "team")
	s.Kubectl("", "create", "serviceaccount", "-n", "team", "robot")
	dir := filepath.Join(t.TempDir(), "serviceaccount")
	create := func(args ...string) (string, int) {
		return harness.CLI(t, append([]string{"kubeconfig", "create", "--kubeconfig", s.Kubeconfig, "--service-account", "team/robot"}, args...)...)
	}
	if out, code := create("--in-cluster-env", dir); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	// What rest.InClusterConfig does, from another directory than the fixed one.
	env := map[string]string{}
	for line := range strings.Lines(string(harness.ReadFile(t, filepath.Join(dir, "env")))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	config := &rest.Config{
		Host:            "https://" + net.JoinHostPort(env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca.crt")},
		BearerTokenFile: filepath.Join(dir, "token"),
	}
	if user := harness.WhoAmI(t, config); user.Username != "system:serviceaccount:team:robot" {
		t.Errorf("the server sees %s", user.Username)
	}
	if namespace := string(harness.ReadFile(t, filepath.Join(dir, "namespace"))); namespace != "team" {
		t.Errorf("the namespace is %q", namespace)
	}
	for args, want := range map[string]string{"": "in namespace team", "--all-namespaces": "in all namespaces"} {
		out, code := create(append([]string{"--role", "view"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(out, "system:serviceaccount:team:robot has the ClusterRole view "+want) {
			t.Errorf("with %q: exit code %d:\n%s", args, code, out)
		}
	}
	out, code := create("--server", "https://mini.example.com:7443")
	if code != 0 || !strings.Contains(out, "server: https://mini.example.com:7443") || !strings.Contains(out, "namespace: team") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestRefusedAccess(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	stopped := filepath.Join(t.TempDir(), "stopped")
	unreachable := filepath.Join(t.TempDir(), "unreachable.kubeconfig")
	closed := harness.FreeAddress(t)
	text := strings.Replace(string(harness.ReadFile(t, s.Kubeconfig)), strings.TrimPrefix(s.RESTConfig().Host, "https://"), closed, 1)
	harness.WriteFile(t, unreachable, text)
	here := []string{"--data-dir", s.Dir}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{here, 2, "give one NAME"},
		{append([]string{"a", "b"}, here...), 2, "give one NAME"},
		{append([]string{""}, here...), 2, "must not be empty"},
		{append([]string{"jane", "--expires", "1m"}, here...), 1, "may not specify a duration less than 600 seconds"},
		{append([]string{"jane", "--expires", "soon"}, here...), 2, "not a duration"},
		{append([]string{"jane", "--group", "system:masters"}, here...), 1, "system:masters"},
		{append([]string{"jane", "--service-account", "default/default"}, here...), 2, "cannot be combined with NAME"},
		{append([]string{"--service-account", "default"}, here...), 2, "namespace/name"},
		{append([]string{"--service-account", "../default"}, here...), 2, "namespace/name"},
		{append([]string{"--service-account", "default/nobody"}, here...), 1, "kubectl create serviceaccount"},
		{append([]string{"jane", "--in-cluster-env", "x"}, here...), 2, "needs --service-account"},
		{append([]string{"jane", "--server", "mini:6443"}, here...), 2, "https://host:port"},
		{append([]string{"jane", "--output", "/dev/null/x"}, here...), 1, "/dev/null"},
		{[]string{"jane", "--data-dir", stopped}, 3, "start the server first"},
		{[]string{"jane", "--kubeconfig", unreachable}, 3, "is it running?"},
		{[]string{"jane", "--kubeconfig", stopped}, 2, "stopped"},
	} {
		out, code := harness.CLI(t, append([]string{"kubeconfig", "create"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("kubeconfig create %q: exit code %d, want %d with %q:\n%s", c.args, code, c.code, c.want, out)
		}
		if strings.Contains(out, "PRIVATE KEY") {
			t.Errorf("kubeconfig create %q prints a key", c.args)
		}
	}
}
