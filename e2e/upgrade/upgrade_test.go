package upgrade

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// objects are of every kind that a server stores in its own way.
const objects = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.cloud.example.com}
spec:
  group: cloud.example.com
  scope: Namespaced
  names: {plural: buckets, singular: bucket, kind: Bucket}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {region: {type: string}}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: team}
stringData: {value: precious}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: robot, namespace: team}]
---
apiVersion: kube-hyper-mini.io/v1alpha1
kind: ServiceEndpoint
metadata: {name: api, namespace: team}
spec: {targets: ["https://127.0.0.1:1"]}
`

const bucket = `
apiVersion: cloud.example.com/v1
kind: Bucket
metadata: {name: data, namespace: team}
spec: {region: eu}
`

// with starts a server of the binary, "" for the one under test.
func with(t *testing.T, binary, dir string, args ...string) *harness.Server {
	t.Helper()
	options := harness.Options{Dir: dir, Args: args}
	if binary != "" {
		options.Wrap = []string{"sh", "-c", `shift; exec "$0" "$@"`, binary} // instead of the binary that follows
	}
	s := harness.LaunchWith(t, options)
	s.WaitReady()
	return s
}

// checks that all objects are there and that everything that was handed out
// still works.
func checks(t *testing.T, s *harness.Server, token string, kubeconfig []byte) {
	t.Helper()
	got := s.Kubectl("", "get", "-n", "team", "secret/token", "bucket/data", "serviceaccount/robot", "serviceendpoint/api", "-o", "jsonpath={.items[*].metadata.name} {.items[0].data.value} {.items[1].spec.region}")
	if want := "token data robot api cHJlY2lvdXM= eu"; got != want {
		t.Errorf("the objects are %q, want %q", got, want)
	}
	if now, err := os.ReadFile(s.Kubeconfig); err != nil || certificates(now) != certificates(kubeconfig) {
		t.Errorf("the administrator has another identity: %v", err)
	}
	config := rest.AnonymousClientConfig(s.RESTConfig())
	config.BearerToken = token
	if who := harness.WhoAmI(t, config).Username; who != "system:serviceaccount:team:robot" {
		t.Errorf("the token is that of %q", who)
	}
	s.Kubectl("", "create", "configmap", "-n", "team", fmt.Sprintf("written-%d", s.PID()))
}

// certificates are the lines of a kubeconfig with the authority and the client.
func certificates(kubeconfig []byte) string {
	var lines []string
	for line := range strings.Lines(string(kubeconfig)) {
		if strings.Contains(line, "-data:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestUpgradeFromEachRelease fills a server of an earlier release, upgrades it, and
// goes back by the archive that the upgrade made.
func TestUpgradeFromEachRelease(t *testing.T) {
	t.Parallel()
	for version := range releases {
		t.Run(version, func(t *testing.T) {
			binary := release(t, version)
			for _, crash := range []bool{false, true} {
				t.Run(fmt.Sprintf("crash %v", crash), func(t *testing.T) {
					t.Parallel()
					upgrade(t, version, binary, crash)
				})
			}
		})
	}
}

func upgrade(t *testing.T, version, binary string, crash bool) {
	dir := filepath.Join(t.TempDir(), "data")
	old := with(t, binary, dir)
	old.Kubectl(objects, "apply", "-f", "-")
	old.Await("condition=Established", "crd/buckets.cloud.example.com")
	old.Kubectl(bucket, "apply", "-f", "-")
	token := old.Kubectl("", "create", "token", "-n", "team", "robot", "--duration", "24h")
	kubeconfig := harness.ReadFile(t, old.Kubeconfig)
	checks(t, old, token, kubeconfig)
	if crash {
		old.Kill()
	} else {
		old.Stop()
	}
	left := harness.ReadFile(t, filepath.Join(dir, "etcd", "member", "snap", "db"))

	upgraded := with(t, "", dir)
	harness.Contains(t, upgraded.Log(), "backup made before the upgrade", "from="+version)
	if complaints := harness.Problems(upgraded.Log()); complaints != "" {
		t.Errorf("the upgrade complains:\n%s", complaints)
	}
	checks(t, upgraded, token, kubeconfig)
	upgraded.Kubectl("", "create", "configmap", "-n", "team", "after")
	if code := upgraded.Stop(); code != 0 {
		t.Errorf("the upgraded server ended with %d", code)
	}

	archives, err := filepath.Glob(filepath.Join(dir, "backups", "before-upgrade-*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("the archives are %v, %v", archives, err)
	}
	if saved := snapshotIn(t, archives[0]); !crash && !bytes.Equal(saved[:len(saved)-sha256.Size], left) {
		t.Error("the database in the archive is not the one that the earlier release has left")
	}
	// The earlier release reads the archive itself.
	out, err := harness.Run(t, "", binary, "backup", "restore", "--data-dir", dir, archives[0])
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	back := with(t, binary, dir)
	checks(t, back, token, kubeconfig)
	if out, err := back.TryKubectl("", "get", "configmap", "-n", "team", "after"); err == nil {
		t.Errorf("what was written after the upgrade is there:\n%s", out)
	}
}

// snapshotIn is the database in an archive, with its sum at the end.
func snapshotIn(t *testing.T, archive string) []byte {
	t.Helper()
	dir := t.TempDir()
	if out, err := harness.Run(t, "", "tar", "-xz", "-f", archive, "-C", dir, "etcd/snapshot.db"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := harness.ReadFile(t, filepath.Join(dir, "etcd", "snapshot.db"))
	return data
}

// TestNewerServiceEndpointDefinitionIsKept: a replica of an older release leaves the type
// ServiceEndpoint as a newer one has made it.
func TestNewerServiceEndpointDefinitionIsKept(t *testing.T) {
	t.Parallel()
	const name = "crd/serviceendpoints.kube-hyper-mini.io"
	s := harness.Start(t)
	s.Kubectl("", "annotate", "--overwrite", name, "kube-hyper-mini.io/definition-version=99")
	s.Kubectl("", "patch", name, "--type=json", "-p", `[{"op": "add", "path": "/spec/names/shortNames/-", "value": "newer"}]`)
	s.Stop()
	s = harness.StartIn(t, s.Dir)
	if names := s.Kubectl("", "get", name, "-o", "jsonpath={.spec.names.shortNames}"); !strings.Contains(names, "newer") {
		t.Errorf("the newer definition is gone: %s", names)
	}
}
