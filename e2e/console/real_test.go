package console

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// withRealTypes is a server with CRDs of Gateway API, cert-manager and Crossplane, and with what
// cert-manager makes of a Certificate: each object owns the next.
func withRealTypes(t *testing.T) *harness.Server {
	t.Helper()
	s := harness.Start(t)
	installAll(t, s)
	s.Kubectl("", "apply", "--server-side", "--field-manager=platform", "-f", "testdata/real.yaml")
	s.Kubectl("", "apply", "--server-side", "--field-manager=edge-controller", "--force-conflicts", "--subresource=status", "-f", "testdata/real-status.yaml")
	owner := func(apiVersion, kind, resource, name string) string {
		uid := s.Kubectl("", "get", resource, name, "-n", "shop", "-o", "jsonpath={.metadata.uid}")
		return fmt.Sprintf("[{apiVersion: %s, kind: %s, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}]", apiVersion, kind, name, uid)
	}
	s.Kubectl(`
apiVersion: cert-manager.io/v1
kind: CertificateRequest
metadata: {name: orders-tls-1, namespace: shop, ownerReferences: `+owner("cert-manager.io/v1", "Certificate", "certificates", "orders-tls")+`}
spec: {request: cmVxdWVzdA==, issuerRef: {name: letsencrypt}}
`, "create", "-f", "-")
	s.Kubectl(`
apiVersion: acme.cert-manager.io/v1
kind: Order
metadata: {name: orders-tls-1-77, namespace: shop, ownerReferences: `+owner("cert-manager.io/v1", "CertificateRequest", "certificaterequests", "orders-tls-1")+`}
spec: {request: cmVxdWVzdA==, issuerRef: {name: letsencrypt}}
`, "create", "-f", "-")
	s.Kubectl(`
apiVersion: acme.cert-manager.io/v1
kind: Challenge
metadata: {name: orders-tls-1-77-88, namespace: shop, ownerReferences: `+owner("acme.cert-manager.io/v1", "Order", "orders", "orders-tls-1-77")+`}
spec: {authorizationURL: "https://acme.example.org/1", url: "https://acme.example.org/2", dnsName: orders.example.org, issuerRef: {name: letsencrypt}, key: k, token: t, type: HTTP-01, solver: {}}
`, "create", "-f", "-")
	return s
}

// TestRealTypes: the pages show types of Gateway API, cert-manager and Crossplane:
// printer columns, conditions, owners, managers, versions and all fields.
func TestRealTypes(t *testing.T) {
	t.Parallel()
	s := withRealTypes(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/types?q=gateway")
	p.sees("HTTPRoute", "GatewayClass", "gateway.networking.k8s.io", "v1, v1beta1", "gtw")
	p.shows(".type-row:not(.head)", "HTTPRoute", "2")

	// Objects: columns, sorting, filters, live changes.
	p.visit("#/objects/gateway.networking.k8s.io/v1/gateways")
	p.shows(".object-row", "web", "edge", "False")
	s.Kubectl("", "patch", "gateway", "web", "-n", "shop", "--subresource=status", "--type=json", "-p", `[{"op":"replace","path":"/status/conditions/1/status","value":"Unknown"}]`)
	p.shows(".object-row", "web", "edge", "Unknown")
	p.visit("#/objects/cert-manager.io/v1/certificates?ns=shop")
	p.shows(".object-row", "orders-tls", "False")
	p.lacks("the secret does not exist")
	p.click("all columns")
	p.shows(".object-row", "letsencrypt", "the secret does not exist")
	p.visit("#/objects/gateway.networking.k8s.io/v1/httproutes?sort=Hostnames")
	p.order("users", "orders")
	p.fill("Label selector", "app in (orders")
	p.sees("Cannot list httproutes", "unable to parse requirement")
	p.fill("Label selector", "app in (orders)")
	p.sees("1 object")
	p.lacks("Cannot list")
	p.order("orders")

	// One object.
	p.visit("#/object/gateway.networking.k8s.io/v1/gateways/shop/web")
	p.sees("Programmed", "no address is free", "Conditions of listeners http", "Conflicted")
	p.shows(".conditions .good", "Conflicted") // that it is false is good
	p.visit("#/object/gateway.networking.k8s.io/v1/httproutes/shop/orders")
	p.sees("Conditions of parents web", "not resolved refs: BackendNotFound", "the service orders does not exist")
	p.visit("#/object/cert-manager.io/v1/certificates/shop/orders-tls")
	p.shows(".conditions .warn", "Issuing")
	p.visit("#/object/acme.cert-manager.io/v1/challenges/shop/orders-tls-1-77-88?tab=tree")
	p.sees("Certificate", "CertificateRequest", "Order", "orders-tls-1-77-88")
	p.visit("#/object/gateway.networking.k8s.io/v1/httproutes/shop/orders?tab=managers")
	p.sees("edge-controller", "Apply of status")
	p.click("platform")
	p.sees("spec.hostnames", "spec.parentRefs")

	// The schema: all fields that kubectl explains, search, a link to a field, versions.
	p.visit("#/schema/gateway.networking.k8s.io/v1/httproutes?all=yes")
	p.sees("ResponseHeaderModifier")
	want := explained(s.Kubectl("", "explain", "httproutes", "--recursive"))
	got := evaluate[[]string](p, `[...document.querySelectorAll(".fields-tree > li")].map((e) => e.id.slice("field-".length))`)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("kubectl explains %d fields:\n%q\nthe page %d:\n%q", len(want), want, len(got), got)
	}
	p.fill("Search the schema", "requestmirror")
	p.sees("spec.rules.filters.requestMirror")
	p.click("spec.rules.filters.requestMirror.backendRef")
	p.run("reload", reload())
	p.sees("requestMirror", "backendRef")
	p.visit("#/schema/apiextensions.crossplane.io/v1/compositeresourcedefinitions?compare=v2")
	p.sees("spec.scope", "default \"LegacyCluster\"", "default \"Namespaced\"")

	s.Kubectl("", "create", "clusterrole", "certificates-editor", "--verb=update", "--resource=certificates.cert-manager.io")
	s.Kubectl("", "create", "rolebinding", "ada", "-n", "shop", "--clusterrole=certificates-editor", "--user=ada")
	p.visit("#/access?verb=update&type=cert-manager.io/v1/certificates&ns=shop")
	p.shows("main tr", "ada", "certificates-editor")
}

// explained returns the paths of the fields in the output of kubectl explain.
func explained(text string) []string {
	field := regexp.MustCompile(`^( +)([^ \t]+)\t<`)
	var paths, parents []string
	for line := range strings.Lines(text[strings.Index(text, "FIELDS:"):]) {
		match := field.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		depth := len(match[1])/2 - 1
		parents = append(parents[:depth], match[2])
		paths = append(paths, strings.Join(parents, "."))
	}
	return paths
}
