#!/bin/sh
# deb: $1 is "remove", "purge", "upgrade" and others. rpm has no purge: data and
# user stay, and the documentation says how to remove them.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi

if [ "$1" = purge ]; then
	# All that the service has made except the backups, which are the way back.
	# The configuration dpkg removes itself.
	state=/var/lib/kube-hyper-mini
	if [ -d "$state" ]; then
		if [ "${KUBE_HYPER_MINI_PURGE_BACKUPS:-}" != 1 ] && [ -n "$(ls -A "$state/backups" 2>/dev/null)" ]; then
			find "$state" -mindepth 1 -maxdepth 1 ! -name backups -exec rm -rf {} +
			chown -R root:root "$state" # the user goes
			chmod 0700 "$state"
			echo "The backups stay in $state/backups. Remove that directory if you do not need them;"
			echo "KUBE_HYPER_MINI_PURGE_BACKUPS=1 makes a purge remove them."
		else
			rm -rf "$state"
		fi
	fi
	rm -rf /etc/kube-hyper-mini
	if getent passwd kube-hyper-mini >/dev/null; then
		userdel kube-hyper-mini
	fi
	if getent group kube-hyper-mini >/dev/null; then
		groupdel kube-hyper-mini
	fi
fi
