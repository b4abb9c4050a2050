#!/usr/bin/env bash
# Installs, starts, upgrades and removes the rpm with the real rpm. Run by
# test-package.sh, on a view of this machine. Dependencies are read and not checked:
# on Debian, rpm has no list of the installed packages.
set -euo pipefail

cd /
. /pkg/service.sh
run() { rpm "$@" >/tmp/rpm.log 2>&1 || fail "rpm $*: $(cat /tmp/rpm.log)"; }

case $(rpm -qp --requires /pkg/old/*.rpm) in
*shadow-utils*) ;;
*) fail "it does not require the package that its script needs" ;;
esac
run --install --nodeps /pkg/old/*.rpm
rpm --verify --nodeps kube-hyper-mini || fail "the installed files differ from the package"
getent passwd kube-hyper-mini >/dev/null || fail "no user"
while read -r mode path; do
	test "$(stat -c '%a %U' "$path")" = "$mode root" || fail "$path is $(stat -c '%a %U' "$path"), want $mode root"
done <<'FILES'
755 /usr/bin/kube-hyper-mini
644 /usr/lib/systemd/system/kube-hyper-mini.service
644 /usr/lib/sysusers.d/kube-hyper-mini.conf
644 /etc/kube-hyper-mini/config.yaml
644 /usr/share/man/man1/kube-hyper-mini-server.1.gz
644 /usr/share/man/man7/kube-hyper-mini-backup.7.gz
644 /usr/share/bash-completion/completions/kube-hyper-mini
644 /usr/share/zsh/site-functions/_kube-hyper-mini
FILES
test "$(rpm -q --configfiles kube-hyper-mini)" = /etc/kube-hyper-mini/config.yaml || fail "the configuration is not marked as a configuration file"
ok "installed: files, modes, user"

start
export KUBECONFIG=/var/lib/kube-hyper-mini/admin.kubeconfig HOME=/tmp
as_member /pkg/kubectl create namespace kept >/dev/null || fail "a member of the group cannot use the kubeconfig of the administrator"
stop
ok "ran as its user and stopped at SIGTERM"

echo "# changed by the administrator" >>/etc/kube-hyper-mini/config.yaml
run --upgrade --nodeps /pkg/new/*.rpm
test "$(rpm -q kube-hyper-mini | wc -l)" = 1 || fail "two versions are installed: $(rpm -q kube-hyper-mini)"
case $(rpm -q kube-hyper-mini) in
*0.0.2~rc.1*) ;;
*) fail "the new version is not installed: $(rpm -q kube-hyper-mini)" ;;
esac
grep -q "changed by the administrator" /etc/kube-hyper-mini/config.yaml || fail "the upgrade replaced the configuration"
start
/pkg/kubectl get namespace kept >/dev/null || fail "the upgrade lost data"
stop
ok "upgraded: configuration and data are kept"

run --erase kube-hyper-mini
test ! -e /usr/bin/kube-hyper-mini || fail "remove left the program"
test -e /var/lib/kube-hyper-mini/version.json || fail "remove deleted the data"
grep -q "changed by the administrator" /etc/kube-hyper-mini/config.yaml.rpmsave || fail "remove deleted the changed configuration"
getent passwd kube-hyper-mini >/dev/null || fail "remove deleted the user, whose data is kept"
ok "removed: data, user and the changed configuration are kept"
