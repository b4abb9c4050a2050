package packaging

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// issueEtcdFiles writes an authority and one certificate, for etcd and for its
// clients, under the names that the Deployment's secret has.
func issueEtcdFiles(t *testing.T, dir string) {
	t.Helper()
	ca := harness.NewAuthority(t, "etcd CA")
	ca.Write(t, filepath.Join(dir, "ca"))
	crt, key := ca.Issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "etcd"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	harness.WritePair(t, filepath.Join(dir, "tls"), crt, key)
}

// secureEtcd runs an etcd that only holders of a certificate can use.
func secureEtcd(t *testing.T, files string) (url string) {
	t.Helper()
	binary := harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "go.etcd.io/etcd/server/v3", "etcd")
	client, peer := "https://"+harness.FreeAddress(t), "http://"+harness.FreeAddress(t)
	harness.StartProcess(t, exec.Command(binary, "--data-dir", t.TempDir(), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--client-cert-auth", "--trusted-ca-file", filepath.Join(files, "ca.crt"),
		"--cert-file", filepath.Join(files, "tls.crt"), "--key-file", filepath.Join(files, "tls.key")))
	return client
}

// replica lays out what the Deployment mounts into each pod and starts what
// its container would start. Another directory and port are all that differs.
func replica(t *testing.T, deployment *appsv1.Deployment, config, keys string) *harness.Server {
	t.Helper()
	const data = "/var/lib/kube-hyper-mini"
	dir := filepath.Join(t.TempDir(), "data")
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, mount := range container.VolumeMounts {
		to := filepath.Join(dir, strings.TrimPrefix(mount.MountPath, data))
		var err error
		switch mount.Name {
		case "data", "pki":
			err = os.MkdirAll(to, 0o750)
		case "keys":
			var content []byte
			if content, err = os.ReadFile(filepath.Join(keys, "pki", mount.SubPath)); err == nil {
				err = os.WriteFile(to, content, 0o440)
			}
		case "encryption":
			if err = os.CopyFS(to, os.DirFS(filepath.Join(keys, "encryption"))); err == nil {
				err = os.Chmod(to, 0o550)
			}
		}
		if err != nil {
			t.Fatalf("mount %s: %v", mount.MountPath, err)
		}
	}
	if want := []string{"server", "--config", "/etc/kube-hyper-mini/config.yaml"}; !slices.Equal(container.Args, want) {
		t.Fatalf("the container is started with %q", container.Args)
	}
	return harness.StartIn(t, dir, "--config", config)
}

// TestDeploymentOnExternalEtcd: two replicas with what the Deployment gives
// them serve as one.
func TestDeploymentOnExternalEtcd(t *testing.T) {
	t.Parallel()
	manifests := filepath.Join(harness.Root(t), "packaging", "kubernetes", "external")
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(harness.ReadFile(t, filepath.Join(manifests, "deployment.yaml")), &deployment); err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	issueEtcdFiles(t, files)
	config := filepath.Join(t.TempDir(), "config.yaml")
	content := strings.NewReplacer(
		"https://etcd.etcd.svc:2379", secureEtcd(t, files),
		"/etc/kube-hyper-mini-etcd", files,
		"bindAddress: 0.0.0.0", "bindAddress: 127.0.0.1",
	).Replace(string(harness.ReadFile(t, filepath.Join(manifests, "config.yaml"))))
	harness.WriteFile(t, config, content)
	for _, mount := range deployment.Spec.Template.Spec.Containers[0].VolumeMounts {
		if mount.Name == "etcd" && !strings.Contains(string(harness.ReadFile(t, filepath.Join(manifests, "config.yaml"))), path.Join(mount.MountPath, "ca.crt")) {
			t.Errorf("etcd's certificates are mounted at %s, where the configuration does not look", mount.MountPath)
		}
	}

	// The keys are made once, as the manifest says.
	maker := harness.Start(t)
	if code := maker.Stop(); code != 0 {
		t.Fatalf("making the keys ended with %d", code)
	}
	first := replica(t, &deployment, config, maker.Dir)
	second := replica(t, &deployment, config, maker.Dir)

	// Behind one Service, credentials of one replica must work on the other.
	at := func(s *harness.Server, args ...string) string {
		t.Helper()
		return first.Kubectl("", append([]string{"--server", s.RESTConfig().Host}, args...)...)
	}
	at(first, "create", "namespace", "shared")
	at(second, "create", "secret", "generic", "s", "-n", "shared", "--from-literal=key=value")
	if got := at(first, "get", "secret", "s", "-n", "shared", "-o", "go-template={{.data.key | base64decode}}"); got != "value" {
		t.Errorf("the other replica's secret reads %q", got)
	}
	harness.Eventually(t, "the controllers have seen the namespace", func() error {
		_, err := first.TryKubectl("", "get", "serviceaccount", "default", "-n", "shared")
		return err
	})
	token := at(first, "create", "token", "default", "-n", "shared")
	out, err := harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", os.DevNull, "--server", second.RESTConfig().Host,
		"--certificate-authority", filepath.Join(first.Dir, "pki", "server-ca.crt"), "--token", token, "auth", "whoami")
	if err != nil || !strings.Contains(out, "system:serviceaccount:shared:default") {
		t.Errorf("the second replica does not know the first one's token: %v\n%s", err, out)
	}

	if code := first.Stop(); code != 0 {
		t.Errorf("the first replica ended with exit code %d", code)
	}
	second.Kubectl("", "delete", "namespace", "shared")
	if code := second.Stop(); code != 0 {
		t.Errorf("the second replica ended with exit code %d", code)
	}
	for _, s := range []*harness.Server{first, second} {
		for line := range strings.Lines(harness.Errors(s.Log())) {
			// Two that meet at the lease are no fault, nor that one deletes its identity's lease at its
			// stop: both have the name of this machine.
			if !strings.Contains(line, "lease lock") && !strings.Contains(line, "Failed to update lease") {
				t.Errorf("a replica complains: %s", line)
			}
		}
	}
}
