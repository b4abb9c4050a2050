#!/bin/sh
# Runs the unmodified k8s.io/sample-apiserver, and an etcd for it, until Ctrl-C.
# It needs Go, a server to which sample-apiserver.yaml has been applied, and the
# administrator's kubeconfig in KUBECONFIG.
#
#   sample-apiserver.sh [PORT [ETCD_PORT [ETCD_PEER_PORT]]]
set -eu
: "${KUBECONFIG:?is empty; the last line that the server has written names the file}"
repository=$(cd "$(dirname "$0")/../.." && pwd)
port=${1:-4443} etcd=http://127.0.0.1:${2:-24379} peer=http://127.0.0.1:${3:-24380}
export CGO_ENABLED=0

echo "building etcd and k8s.io/sample-apiserver, which takes minutes the first time"
etcd_program=$(go -C "$repository/e2e" tool -n go.etcd.io/etcd/server/v3)
sample_program=$(go -C "$repository/e2e" tool -n sample-apiserver)

work=$(mktemp -d)
pids=
finish() {
	trap - EXIT INT TERM
	kill -KILL $pids 2>/dev/null || true # their data goes with them, and one may have ended
	wait
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 0' INT TERM

# What a pod would have: the service account's token, and nothing else.
go -C "$repository" run . kubeconfig create --service-account wardle/apiserver \
	--kubeconfig "$KUBECONFIG" --output "$work/kubeconfig" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }

"$etcd_program" --data-dir "$work/etcd" \
	--listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
	--listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" >"$work/etcd.log" 2>&1 &
pids=$!
"$sample_program" --bind-address 127.0.0.1 --secure-port "$port" --cert-dir "$work/certificates" \
	--etcd-servers "$etcd" --kubeconfig "$work/kubeconfig" \
	--authentication-kubeconfig "$work/kubeconfig" --authorization-kubeconfig "$work/kubeconfig" >"$work/log" 2>&1 &
sample=$!
pids="$pids $sample"
echo "sample-apiserver serves wardle.example.com on https://127.0.0.1:$port; Ctrl-C ends it"
code=0
wait "$sample" || code=$?
tail "$work/etcd.log" "$work/log" >&2
exit "$code"
