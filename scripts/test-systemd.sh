#!/usr/bin/env bash
# Boots systemd itself in a container on a copy-on-write view of this machine,
# with the deb installed, and has it start, watch and stop the unit in its
# whole sandbox. Needs root, systemd-nspawn, overlayfs.
#   test-systemd.sh BINARY KUBECTL
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${INSIDE:-}" != 1 ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	PACKAGERS=deb scripts/packages.sh "$1" v0.0.1 "$work"
	cp "$2" "$work/kubectl"
	INSIDE=1 unshare --mount "$PWD/scripts/test-systemd.sh" "$work"
	exit
fi

work=$1
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
root=/mnt/root
# A server of this machine is not part of the view.
rm -rf $root/var/lib/kube-hyper-mini $root/etc/kube-hyper-mini
rm -f $root/var/lib/man-db/auto-update # dpkg would index the manual pages of the machine
mkdir -p $root/pkg
cp -r "$work"/* $root/pkg/
chroot $root dpkg -i "/pkg/$(basename "$work"/*.deb)" >/mnt/log 2>&1 || { cat /mnt/log; exit 1; }

# Boot no further than the probe needs.
units=$root/etc/systemd/system
mkdir -p $units/probe.target.wants
cat >$units/probe.target <<'UNIT'
[Unit]
Requires=basic.target
After=basic.target
AllowIsolate=yes
UNIT
ln -sf probe.target $units/default.target
ln -s ../probe.service $units/probe.target.wants/
cat >$units/probe.service <<'UNIT'
[Service]
Type=oneshot
StandardOutput=file:/pkg/out
StandardError=file:/pkg/out
ExecStart=/bin/bash /pkg/probe.sh
ExecStopPost=/bin/systemctl poweroff --no-block
UNIT
# A shorter watchdog interval, so that a missing notification is seen in the test, which a
# slow machine must not miss either.
mkdir -p $units/kube-hyper-mini.service.d
printf '[Service]\nWatchdogSec=20s\n' >$units/kube-hyper-mini.service.d/test.conf
cat >$root/pkg/probe.sh <<'PROBE'
set -u
unit=kube-hyper-mini
fail() { echo "FAILED: $*"; journalctl --no-pager --lines 40 --unit $unit; exit 1; }
show() { systemctl show $unit --property "$1" --value; }
systemctl start $unit || fail "it does not start"
export KUBECONFIG=/var/lib/$unit/admin.kubeconfig HOME=/tmp
/pkg/kubectl create namespace in-the-sandbox || fail "kubectl"
echo "ok: systemd starts it in its sandbox, and kubectl writes"
notified=$(show WatchdogTimestampMonotonic)
for _ in 1 2; do # the notification after the start is one as well
	for _ in $(seq 150); do now=$(show WatchdogTimestampMonotonic); test "$now" != "$notified" && break; sleep 0.2; done
	test "$now" != "$notified" || fail "the watchdog is not notified"
	notified=$now
done
test "$(show ActiveState),$(show NRestarts)" = active,0 || fail "the watchdog bit"
journalctl --no-pager --unit $unit | grep -q " ERROR " && fail "there are errors in the journal"
echo "ok: it feeds the watchdog"
kill -STOP "$(show MainPID)"
for _ in $(seq 300); do test "$(show NRestarts)" != 0 && break; sleep 0.2; done
for _ in $(seq 300); do test "$(show ActiveState)" = active && break; sleep 0.2; done
test "$(show NRestarts),$(show ActiveState)" = 1,active || fail "a hanging service is not restarted: $(show NRestarts) $(show ActiveState)"
echo "ok: the watchdog restarts it when it hangs"
systemctl stop $unit
test "$(show Result),$(show ExecMainStatus)" = success,0 || fail "it does not stop in order"
echo "ok: it stops in order"
sed -i 's/^kind: .*/kind: Nonsense/' /etc/$unit/config.yaml
systemctl start $unit 2>/dev/null && fail "it starts with a broken configuration"
sleep 4 # twice RestartSec
test "$(show ActiveState),$(show ExecMainStatus),$(show NRestarts)" = failed,2,0 || fail "a broken configuration is tried again"
echo "ok: a broken configuration is not tried again"
echo "ok: the end"
PROBE
timeout 300 systemd-nspawn --quiet --directory=$root --register=no --keep-unit --private-network --machine=probe --boot >/mnt/log 2>&1 || true
grep -E '^(ok|FAILED)' $root/pkg/out || { cat /mnt/log; exit 1; }
grep -q '^ok: the end$' $root/pkg/out || { cat $root/pkg/out; exit 1; }
