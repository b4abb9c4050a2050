# Sourced by the tests of the packages: the service, as systemd would run it.
ok() { echo "ok: $*"; }
fail() {
	echo "FAILED: $*" >&2
	cat /tmp/log >&2 || true
	exit 1
}
wait_for() { # TEXT, in the log of the service
	for _ in $(seq 1200); do
		if grep -q "$1" /tmp/log; then return; fi
		if ! kill -0 "$service"; then fail "the service ended before: $1"; fi
		sleep 0.1
	done
	fail "the log of the service does not have: $1"
}
start() {
	: >/tmp/log
	/pkg/supervise /usr/lib/systemd/system/kube-hyper-mini.service >/tmp/log 2>&1 &
	service=$!
	wait_for 'notified: READY=1'
}
stop() {
	kill -TERM "$service"
	code=0
	wait "$service" || code=$?
	if [ $code != 0 ]; then fail "the service ended with $code"; fi
	if ! grep -q 'notified: STOPPING=1' /tmp/log; then fail "it did not notify that it stops"; fi
}
as_member() { setpriv --reuid 65534 --regid 65534 --groups "$(getent group kube-hyper-mini | cut -d: -f3)" -- "$@"; }
