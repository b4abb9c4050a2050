#!/bin/sh
# deb: $1 is "configure", $2 the version before, if any. rpm: $1 is the number
# of versions that are installed now.
set -e

if ! getent passwd kube-hyper-mini >/dev/null; then
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers kube-hyper-mini.conf
	else
		useradd --system --user-group --no-create-home --home-dir /var/lib/kube-hyper-mini \
			--shell /usr/sbin/nologin --comment "Kubernetes control plane" kube-hyper-mini
	fi
fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	case "$1:$2" in
	configure:?*|2:*) # an upgrade: what ran runs again, with the new program
		systemctl try-restart --no-block kube-hyper-mini.service ;; # a start has no timeout
	esac
fi

case "$1:$2" in
configure:|1:*)
	echo "kube-hyper-mini is installed. Look at /etc/kube-hyper-mini/config.yaml, then:"
	echo "  systemctl enable --now kube-hyper-mini"
	echo "  usermod -aG kube-hyper-mini USER   # to let USER be the administrator"
	;;
esac
