#!/usr/bin/env bash
# Builds the image and runs it as a container would run: first process of its
# own namespaces, read-only root, one volume, its user, no privileges. Talks to
# it with kubectl, stops it. Needs root and buildah; touches nothing else of
# the machine.
#   test-image.sh BINARY KUBECTL
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${INSIDE:-}" = 1 ]; then # in the namespaces: become the program
	root=$1 volume=$2
	shift 2
	mount --bind "$root" "$root"
	mkdir -p "$root/proc" "$root/dev"
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	printf '127.0.0.1 localhost\n127.0.0.1 mini\n' >"$root/etc/hosts" # as runtimes do
	mount --bind "$volume" "$root/var/lib/kube-hyper-mini"
	mount -o remount,bind,ro "$root"
	ip link set lo up
	hostname mini
	cd "$root"
	exec env -i HOME=/var/lib/kube-hyper-mini ${EXTERNAL_URL:+KUBE_HYPER_MINI_EXTERNAL_URL="$EXTERNAL_URL"} "$(command -v setpriv)" --no-new-privs -- \
		"$(command -v chroot)" --userspec=65532:65532 "$root" \
		/usr/bin/kube-hyper-mini server --config /etc/kube-hyper-mini/config.yaml "$@"
fi

work=$(mktemp -d)
buildah() { command buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
first=
cleanup() {
	if [ -n "$first" ] && kill -0 "$first" 2>/dev/null; then kill -KILL "$first"; fi
	buildah rm --all >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap cleanup EXIT
ok() { echo "ok: $*"; }
fail() {
	echo "FAILED: $*" >&2
	cat "$work/log" >&2 || true
	exit 1
}

kubectl=$(realpath "$2")
BUILDAH_OPTIONS="--root $work/store --runroot $work/run --storage-driver vfs" scripts/image.sh "$1" v0.0.1 kube-hyper-mini:test
container=$(buildah from kube-hyper-mini:test)
test "$(buildah inspect --type image --format '{{.Docker.Config.User}}' kube-hyper-mini:test)" = 65532:65532 || fail "the user is not numeric"
root=$(buildah mount "$container")
found=$(cd "$root" && find . -xdev -type f | sort | tr '\n' ' ')
case $found in
*/bin/sh* | *busybox*) fail "there is a shell" ;;
esac
ok "it holds $found"
buildah run --isolation chroot "$container" -- /usr/bin/kube-hyper-mini version >"$work/log" 2>&1 || fail "buildah run"
ok "buildah runs it: $(head -1 "$work/log")"

unshare= first=
# start VOLUME [ARGUMENT...] runs the server with further arguments.
start() {
	install -d -o 65532 -g 65532 -m 0750 "$1"
	INSIDE=1 unshare --mount --pid --net --ipc --uts --fork --kill-child \
		"$PWD/scripts/test-image.sh" "$root" "$@" >"$work/log" 2>&1 &
	unshare=$!
	for _ in $(seq 600); do
		first=$(pgrep --parent "$unshare" || true)
		if [ -n "$first" ] && [ "$(readlink "/proc/$first/root")" = "$root" ]; then break; fi
		kill -0 $unshare || fail "it did not start"
		sleep 0.1
	done
	healthy --wait 60s >"$work/status" 2>&1 || fail "the health check says $? $(cat "$work/status")"
}
# stop ends it in order.
stop() {
	kill -TERM "$first"
	code=0
	wait $unshare || code=$?
	test $code = 0 || fail "SIGTERM ends it with $code"
	grep -q 'INFO  stopped' "$work/log" || fail "it was not an orderly stop"
	first=
}
# In its namespaces; the status command is the image's health check.
inside() { nsenter --target "$first" --net --pid --uts "$@"; }
execute() { inside chroot --userspec=65532:65532 "/proc/$first/root" /usr/bin/kube-hyper-mini "$@" --config /etc/kube-hyper-mini/config.yaml; }
healthy() { execute status "$@"; }

start "$work/volume"
ok "the health check says: $(head -1 "$work/status")"
test "$(stat -c %u "/proc/$first")" = 65532 || fail "it runs as $(stat -c %u "/proc/$first")"
grep -q '^NSpid:.*\s1$' "/proc/$first/status" || fail "it is not the first process"
# The name in the kubeconfig is known in the container only.
export KUBECONFIG=$work/kubeconfig HOME=$work
execute kubeconfig >"$KUBECONFIG" || fail "no kubeconfig"
inside "$kubectl" --server=https://127.0.0.1:6443 create configmap greeting --from-literal=hello=world >/dev/null || fail "kubectl create"
test "$(inside "$kubectl" --server=https://127.0.0.1:6443 get configmap greeting -o 'jsonpath={.data.hello}')" = world || fail "kubectl get"
ok "kubectl writes and reads"

# A process that loses its parent belongs to the first one, which collects it.
inside sh -c '(sleep 5 &)'
test -n "$(ps -o stat= --ppid "$first")" || fail "the orphan did not become a child of the first process"
for _ in $(seq 600); do
	children=$(ps -o stat= --ppid "$first" || true)
	if [ -z "$children" ]; then break; fi
	sleep 0.1
done
test -z "$children" || fail "children are left: $children"
ok "orphans are collected"

stop
ok "SIGTERM ends it in order"

# For tests: the address of a mapped port, and nothing is left in the volume.
volume=$work/ephemeral
EXTERNAL_URL=https://localhost:32768 start "$volume" --ephemeral --tls-san mini.example.org
test "$(grep -c 'INFO  ready' "$work/log")" = 1 || fail "not one line says that it is ready"
test "$(stat -c '%u %a' "$volume/admin.kubeconfig")" = "65532 600" || fail "the kubeconfig is $(stat -c '%u %a' "$volume/admin.kubeconfig")"
grep -q 'server: https://localhost:32768$' "$volume/admin.kubeconfig" || fail "the kubeconfig has another address"
execute kubeconfig --server https://mini.example.org:6443 >"$KUBECONFIG" || fail "kubeconfig --server"
if grep -q tls-server-name "$KUBECONFIG"; then fail "the certificate lacks the name of --tls-san"; fi
execute kubeconfig --server https://127.0.0.1:6443 >"$KUBECONFIG" || fail "kubeconfig --server"
inside "$kubectl" create configmap greeting --from-literal=hello=world >/dev/null || fail "kubectl create"
ok "with --ephemeral, the health check says: $(head -1 "$work/status")"
stop
test -z "$(ls -A "$volume")" || fail "it leaves $(ls -A "$volume")"
ok "with --ephemeral, nothing is left in the volume"
