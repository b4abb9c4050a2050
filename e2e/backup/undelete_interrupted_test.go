package backup

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// undeleteInterrupted: the connection ends while objects are created. A repetition brings back
// the rest, and the status of those that were created last.
func undeleteInterrupted(u undeletion) {
	const gadgets = 40
	u.s.Kubectl("", "create", "namespace", "halved")
	harness.Eventually(u, "the namespace has its service account", func() error {
		if u.get("serviceaccounts", "halved", "default") == nil {
			return errors.New("not yet")
		}
		return nil
	})
	u.s.Kubectl("", "annotate", "serviceaccount", "-n", "halved", "default", "of=halved")
	var manifest, status strings.Builder
	for i := range gadgets {
		gadget := fmt.Sprintf("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g-%d, namespace: halved}", i)
		fmt.Fprintf(&manifest, "---\n%s, spec: {size: 1}}\n", gadget)
		fmt.Fprintf(&status, "---\n%s, status: {phase: Done}}\n", gadget)
	}
	u.apply("maker", manifest.String())
	u.s.Kubectl(status.String(), "apply", "--server-side", "--subresource=status", "--field-manager", "worker", "-f", "-")
	journaled(u.T, u.s)
	u.s.Kubectl("", "delete", "namespace", "halved")

	out := u.run(harness.ExitFailure, "undelete", "namespace", "halved", "--kubeconfig", breaking(u, 12))
	list := u.s.Kubectl("", "get", "gadgets", "-n", "halved", "--show-managed-fields", "-o", "name")
	exist := strings.Count(list, "gadget") + 1 // and the namespace
	created := strings.Count(out, "\ncreated ") + strings.Count(out, "\nincomplete ") - strings.Count(out, "ServiceAccount")
	unknown := strings.Count(out, "\nunknown ")
	if exist < created || exist > created+unknown || exist > gadgets {
		u.Errorf("%d objects exist, the command says that %d or %d more were created:\n%s", exist, created, unknown, out)
	}
	harness.Contains(u, out, "interrupted: ", "repeat the command")
	first, _, _ := strings.Cut(strings.TrimSpace(list), "\n")
	u.s.Kubectl("", "label", "-n", "halved", first, "changed=since")

	harness.Contains(u, u.run(harness.ExitOK, "undelete", "namespace", "halved", "--dry-run"), "continuing an interrupted run", "create ", "exists ")
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "namespace", "halved"), "created ", "exists ")
	for i := range gadgets {
		gadget := u.get("gadgets.example.com", "halved", fmt.Sprintf("g-%d", i))
		if gadget == nil {
			u.Errorf("gadget %d is missing", i)
			continue
		}
		phase, _, _ := unstructured.NestedString(gadget.Object, "status", "phase")
		if managers := fmt.Sprint(gadget.GetManagedFields()); phase != "Done" || !strings.Contains(managers, "worker") || strings.Contains(managers, "undelete") {
			u.Errorf("gadget %d has the phase %q, and the managers %s", i, phase, managers)
		}
	}
	if account := u.get("serviceaccounts", "halved", "default"); account == nil || account.GetAnnotations()["of"] != "halved" {
		u.Errorf("the service account is %v", account)
	}
	if namespace := u.get("namespaces", "", "halved"); len(namespace.GetAnnotations()) > 0 {
		u.Errorf("the namespace keeps %v", namespace.GetAnnotations())
	}
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "namespace", "halved"), "exists ")
}

// breaking returns a kubeconfig for a proxy that closes all connections after some creations
// of gadgets, with those whose answer is on its way.
func breaking(u undeletion, after int64) string {
	u.Helper()
	config := u.s.RESTConfig()
	transport, err := rest.TransportFor(config)
	if err != nil {
		u.Fatal(err)
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		u.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(host)
	proxy.Transport = transport
	var creations atomic.Int64
	var stored sync.WaitGroup // the client ends its other requests when the first one fails
	stored.Add(int(after))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		creates := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/gadgets") && r.URL.Query().Get("dryRun") == ""
		if creates && creations.Add(1) > after || !creates && creations.Load() > after {
			stored.Wait()
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
		if creates {
			stored.Done()
		}
		if creations.Load() > after {
			stored.Wait()
			panic(http.ErrAbortHandler)
		}
	}))
	u.Cleanup(server.Close)
	path := filepath.Join(u.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}],
clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, server.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		u.Fatal(err)
	}
	return path
}
