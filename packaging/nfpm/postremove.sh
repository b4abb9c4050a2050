#!/bin/sh
# deb: $1 is "remove", "purge", "upgrade" and others. rpm has no purge: data and
# user stay, and the documentation says how to remove them.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi

if [ "$1" = purge ]; then
	# All that the service has made. The configuration dpkg removes itself.
	rm -rf /var/lib/kube-hyper-mini /etc/kube-hyper-mini
	if getent passwd kube-hyper-mini >/dev/null; then
		userdel kube-hyper-mini
	fi
	if getent group kube-hyper-mini >/dev/null; then
		groupdel kube-hyper-mini
	fi
fi
