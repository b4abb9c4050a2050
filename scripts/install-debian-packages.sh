#!/usr/bin/env bash
# Installs the Debian packages that some tests need.
#   install-debian-packages.sh [packaging|browser|python]          installs, by default packaging
#   install-debian-packages.sh check [packaging|browser|python]    fails if one is missing
set -euo pipefail
check=
if [ "${1:-}" = check ]; then
	check=1
	shift
fi
case "${1:-packaging}" in
packaging) packages=(systemd systemd-container buildah iproute2 procps ca-certificates openssh-client rpm) ;;
browser) packages=(chromium) ;;                           # the console's tests
python) packages=(python3-pytest python3-kubernetes) ;;   # config/examples/testing/python
*) echo "usage: $0 [check] [packaging|browser|python]" >&2; exit 2 ;;
esac
if [ "$check" ]; then
	dpkg -s "${packages[@]}" >/dev/null 2>&1
else
	apt-get update -q >/dev/null
	apt-get install -qy --no-install-recommends "${packages[@]}" >/dev/null
fi
