#!/usr/bin/env bash
# Runs upstream's conformance specs, and controller-runtime's suite pkg/client, on control planes
# of a server at /clusters/NAME, which sleep before it and fall asleep between specs.
#   planes-suites.sh LIST [FOCUS]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
list=${1:?the list of specs: generic or fast} focus=${2:-.}
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null && wait "$server" || true; rm -rf "$work"' EXIT
cd "$root"
binary=${KHM_BINARY:-$work/kube-hyper-mini}
[ -n "${KHM_BINARY:-}" ] || go build -o "$binary" .
printf 'apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\nplanes: {enabled: true, sleepAfter: 2s}\ncontrollerManager: {controllers: ["*", bootstrap-signer-controller, token-cleaner-controller]}\n' >"$work/config.yaml"
"$binary" server --config "$work/config.yaml" --data-dir "$work/data" --port 0 >"$work/log" 2>&1 &
server=$!
until "$binary" status --data-dir "$work/data" >"$work/status" 2>&1; do
	kill -0 "$server" || { cat "$work/log"; exit 1; }
	sleep 0.2
done
export KUBECONFIG=$work/data/admin.kubeconfig
"$binary" kubectl apply -f config/examples/planes/acme.yaml
sed 's/name: acme/name: apps/; $a spec: {profile: kubernetes}' config/examples/planes/acme.yaml | "$binary" kubectl apply -f -
for plane in acme apps; do
	"$binary" kubeconfig --data-dir "$work/data" --plane "$plane" >"$work/$plane.kubeconfig"
done
# The bootstrap signer signs what kubeadm would publish.
"$binary" kubectl --kubeconfig "$work/acme.kubeconfig" create configmap cluster-info -n kube-public --from-file=kubeconfig="$work/acme.kubeconfig"
failed=0
"$binary" kubectl wait --for=jsonpath='{.status.phase}'=Asleep controlplane/acme controlplane/apps --timeout=5m
(cd e2e/conformance && go build -o "$root/.bin/conformance/run" . && KHM_BINARY=$binary "$root/.bin/conformance/run" -kubeconfig "$work/acme.kubeconfig" -lists "$list" -only "$focus") || failed=1
(cd e2e/envtest && USE_EXISTING_CLUSTER=true KUBECONFIG=$work/apps.kubeconfig go run . -assets "$work" -suites pkg/client) || failed=1
grep -c WARN "$work/log" || true
exit "$failed"
