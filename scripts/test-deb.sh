#!/usr/bin/env bash
# Installs, starts, upgrades, removes and purges the deb with the real dpkg. Run by
# test-package.sh, on a view of this machine.
set -euo pipefail

cd /
. /pkg/service.sh

# dpkg writes its own errors; without errors its output is dropped.
dpkg -i /pkg/old/*.deb >/tmp/dpkg.log 2>&1 || fail "install: $(cat /tmp/dpkg.log)"
getent passwd kube-hyper-mini >/dev/null || fail "no user"
test "$(dpkg-query -W -f '${db:Status-Status}' kube-hyper-mini)" = installed || fail "not installed"
ok "installed"
systemd-analyze verify --man=no /usr/lib/systemd/system/kube-hyper-mini.service || fail "systemd-analyze verify"
ok "the unit passes systemd-analyze verify"
score=$(systemd-analyze security --offline=true --threshold=19 /usr/lib/systemd/system/kube-hyper-mini.service | tail -1) || fail "systemd-analyze security: $score"
ok "systemd-analyze security: $score"
test -e /usr/share/man/man1/kube-hyper-mini-server.1.gz || fail "no manual page"
test -e /usr/share/man/man7/kube-hyper-mini-backup.7.gz || fail "no manual page of a topic"

start
wait_for 'notified: WATCHDOG=1'
pid=$(sed 's/ *$//' /var/lib/kube-hyper-mini/lock)
test "$(stat -c %U "/proc/$pid")" = kube-hyper-mini || fail "it does not run as its user"
grep -Eq '^CapBnd:\s+0+$' "/proc/$pid/status" || fail "it has capabilities: $(grep Cap "/proc/$pid/status")"
export KUBECONFIG=/var/lib/kube-hyper-mini/admin.kubeconfig HOME=/tmp
as_member /pkg/kubectl create namespace kept >/dev/null || fail "a member of the group cannot use the kubeconfig of the administrator"
if setpriv --reuid 65534 --regid 65534 --clear-groups -- cat "$KUBECONFIG" 2>/dev/null; then fail "every user can read the kubeconfig"; fi
if as_member ls /var/lib/kube-hyper-mini/pki /var/lib/kube-hyper-mini/etcd 2>/dev/null; then fail "a member of the group can read keys or the store"; fi
stop
ok "ran as its user, notified systemd and its watchdog, stopped at SIGTERM"

echo "# changed by the administrator" >>/etc/kube-hyper-mini/config.yaml
dpkg -i /pkg/new/*.deb >/tmp/dpkg.log 2>&1 || fail "upgrade: $(cat /tmp/dpkg.log)"
grep -q "changed by the administrator" /etc/kube-hyper-mini/config.yaml || fail "the upgrade replaced the configuration"
start
/pkg/kubectl get namespace kept >/dev/null || fail "the upgrade lost data"
stop
ok "upgraded: configuration and data are kept"

sed -i 's/^kind: .*/kind: Nonsense/' /etc/kube-hyper-mini/config.yaml
code=0
/pkg/supervise /usr/lib/systemd/system/kube-hyper-mini.service >/tmp/log 2>&1 || code=$?
test $code = 2 || fail "a broken configuration gives exit code $code"
grep -q '^RestartPreventExitStatus=2$' /usr/lib/systemd/system/kube-hyper-mini.service || fail "the unit restarts it after exit code 2"
ok "a broken configuration ends with 2, which the unit does not restart"

dpkg -r kube-hyper-mini >/tmp/dpkg.log 2>&1 || fail "remove: $(cat /tmp/dpkg.log)"
test ! -e /usr/bin/kube-hyper-mini || fail "remove left the program"
test -e /var/lib/kube-hyper-mini/version.json -a -e /etc/kube-hyper-mini/config.yaml || fail "remove deleted data or configuration"
ok "removed: configuration and data are kept"
state=/var/lib/kube-hyper-mini
mkdir -p $state/backups
touch $state/backups/manual-20260102T030405Z.tar.gz
chown -R kube-hyper-mini: $state/backups
dpkg -P kube-hyper-mini >/tmp/dpkg.log 2>&1 || fail "purge: $(cat /tmp/dpkg.log)"
test "$(cd $state && find . -type f -user root)" = ./backups/manual-20260102T030405Z.tar.gz || fail "purge left $(find $state), not the backup alone"
grep -q "stay in $state/backups" /tmp/dpkg.log || fail "purge does not print where the backups are"
ok "purged: the backups are kept"
dpkg -i /pkg/new/*.deb >/tmp/dpkg.log 2>&1 || fail "install after a purge: $(cat /tmp/dpkg.log)"
start # beside the backups of root
stop
dpkg -r kube-hyper-mini >/tmp/dpkg.log 2>&1
KUBE_HYPER_MINI_PURGE_BACKUPS=1 dpkg -P kube-hyper-mini >/tmp/dpkg.log 2>&1 || fail "purge: $(cat /tmp/dpkg.log)"
for path in /var/lib/kube-hyper-mini /etc/kube-hyper-mini /usr/share/doc/kube-hyper-mini; do
	test ! -e $path || fail "purge left $path"
done
if getent passwd kube-hyper-mini || getent group kube-hyper-mini; then fail "purge left the user"; fi
ok "purged: nothing is left"

# The data on other disks, by a link and by a mount.
dpkg -i /pkg/new/*.deb >/tmp/dpkg.log 2>&1 || fail "install: $(cat /tmp/dpkg.log)"
mkdir -p /srv/state/etcd
mount -t tmpfs tmpfs /srv/state/etcd
ln -s /srv/state $state
mkdir /srv/state/pki /srv/state/etcd/member
touch /srv/state/pki/server-ca.key /srv/state/etcd/member/db
dpkg -P kube-hyper-mini >/tmp/dpkg.log 2>&1 || fail "purge of a link: $(cat /tmp/dpkg.log)"
test "$(find /srv/state)" = "/srv/state
/srv/state/etcd" || fail "purge left $(find /srv/state)"
test ! -L $state || fail "purge left the link"
if getent passwd kube-hyper-mini; then fail "purge left the user of a link"; fi
ok "purged: a link and a mount are emptied"
