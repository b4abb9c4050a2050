#!/usr/bin/env bash
# Runs a script with the real package manager on a copy-on-write overlay of this
# machine, in namespaces of its own: nothing of the machine changes. Needs
# root and overlayfs.
#   in-overlay.sh DIR SCRIPT       DIR is /pkg there and contains SCRIPT
set -euo pipefail
if [ "${INSIDE:-}" != 1 ]; then
	INSIDE=1 exec unshare --mount --pid --net --ipc --uts --fork --kill-child --mount-proc "$(realpath "$0")" "$@"
fi
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
# A server of this machine is not part of it.
rm -rf /mnt/root/var/lib/kube-hyper-mini /mnt/root/etc/kube-hyper-mini
# dpkg would index the manual pages of the machine each time.
rm -f /mnt/root/var/lib/man-db/auto-update
mkdir -p /mnt/root/pkg
cp -r "$1"/* /mnt/root/pkg/
mount --rbind /dev /mnt/root/dev
mount -t proc proc /mnt/root/proc
mount -t tmpfs tmpfs /mnt/root/run
mount -t tmpfs tmpfs /mnt/root/tmp
ip link set lo up
exec env --unset=INSIDE chroot /mnt/root /bin/bash "/pkg/$2"
