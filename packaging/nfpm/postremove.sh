#!/bin/sh
# deb: $1 is "remove", "purge", "upgrade" and others. rpm has no purge: data and
# user stay, and the documentation says how to remove them.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi

if [ "$1" = purge ]; then
	# All that the service has made except the backups, which are the way back. The directory may
	# be a link. Mount points stay, empty. The configuration dpkg removes itself.
	link=/var/lib/kube-hyper-mini kept=backups
	if [ "${KUBE_HYPER_MINI_PURGE_BACKUPS:-}" = 1 ]; then kept=; fi
	state=$(readlink -f $link)
	if [ -d "$state" ]; then
		find "$state" -depth -mindepth 1 ! -path "$state/$kept" ! -path "$state/$kept/*" -delete || true
		{ chown -R root:root "$state" && chmod 0700 "$state"; } || true # the user goes
		if [ -n "$kept" ] && [ -n "$(ls -A "$state/backups" 2>/dev/null)" ]; then
			echo "The backups stay in $state/backups. Remove that directory if you do not need them;"
			echo "KUBE_HYPER_MINI_PURGE_BACKUPS=1 makes a purge remove them."
		else
			rmdir "$state/backups" "$state" 2>/dev/null || true
			if [ -L $link ]; then rm $link; fi
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
