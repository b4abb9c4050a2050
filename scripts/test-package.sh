#!/usr/bin/env bash
# Builds an old and a new package and runs its test, test-deb.sh or test-rpm.sh, on a
# copy-on-write overlay of this machine (in-overlay.sh). Needs root, overlayfs, and dpkg
# or rpm.
#   test-package.sh deb|rpm BINARY KUBECTL
set -euo pipefail
cd "$(dirname "$0")/.."
test=test-$1.sh binary=$(realpath "$2") kubectl=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PACKAGERS=$1
scripts/packages.sh "$binary" v0.0.1 "$work/old"
scripts/packages.sh "$binary" v0.0.2-rc.1 "$work/new"
(cd e2e/packaging && CGO_ENABLED=0 go build -o "$work/supervise" ./supervise)
cp "$kubectl" "$work/kubectl"
cp "scripts/$test" scripts/service.sh "$work/"
scripts/in-overlay.sh "$work" "$test"
