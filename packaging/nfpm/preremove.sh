#!/bin/sh
# deb: $1 is "remove" or "upgrade". rpm: $1 is the number of versions that stay.
set -e

case "$1" in
remove|0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now kube-hyper-mini.service
	fi
	;;
esac
