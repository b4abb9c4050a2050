#!/usr/bin/env bash
# Makes the deb and the rpm of a binary that has been built.
#   packages.sh BINARY VERSION DIR     architecture: that of the binary
# The time stamps in the packages are SOURCE_DATE_EPOCH. PACKAGERS=deb makes one of them.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "$1") version=$2
mkdir -p "$3" .bin
out=$(realpath "$3")

# v1.2.3-rc.1 sorts before 1.2.3, and 1.2.3-4-gabc, four commits later, after it.
case $version in
v[0-9]*.*-[0-9]*-g*) PACKAGE_VERSION=$(sed 's/^v//; s/-/+/; s/-/./g' <<<"$version") ;;
v[0-9]*.*) PACKAGE_VERSION=$(sed 's/^v//; s/-/~/; s/-/./g' <<<"$version") ;;
*) PACKAGE_VERSION=0.0.0~$(tr - . <<<"$version") ;;
esac
ARCH=$(go version -m "$binary" | sed -n 's/^\tbuild\tGOARCH=//p')
STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT
export PACKAGE_VERSION ARCH STAGE
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# The pages come from a program that runs here: for another architecture,
# HOST_BINARY names one.
scripts/man-and-completions.sh "${HOST_BINARY:-$binary}" "$STAGE/share"
cp "$binary" "$STAGE/kube-hyper-mini"
find "$STAGE" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

(cd packaging/tools && CGO_ENABLED=0 go build -o ../../.bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm)
for packager in ${PACKAGERS:-deb rpm}; do
	.bin/nfpm package --config packaging/nfpm/nfpm.yaml --packager "$packager" --target "$out"
done
