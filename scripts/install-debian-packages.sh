#!/usr/bin/env bash
# Installs the Debian packages that the packaging tests need.
set -euo pipefail
packages=(systemd systemd-container buildah iproute2 procps ca-certificates openssh-client rpm)
case "${1:-install}" in
check) dpkg -s "${packages[@]}" >/dev/null 2>&1 ;;
install)
	apt-get update -q >/dev/null
	apt-get install -qy --no-install-recommends "${packages[@]}" >/dev/null
	;;
*) echo "usage: $0 [install|check]" >&2; exit 2 ;;
esac
