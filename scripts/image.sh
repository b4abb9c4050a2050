#!/usr/bin/env bash
# Builds the container image of a binary that has been built, with buildah or
# with docker, and prints its size.
#   image.sh BINARY VERSION [NAME]
# BUILDAH_OPTIONS are global options of buildah, as "--root DIR".
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "$1") version=$2 name=${3:-kube-hyper-mini:$2}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

bundle=${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}
test -e "$bundle" || { echo "no CA bundle at $bundle: install ca-certificates, or set CA_BUNDLE" >&2; exit 1; }
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/data"
cp "$binary" "$context/kube-hyper-mini"
cp "$bundle" "$context/ca-certificates.crt"
cp packaging/image/config.yaml "$context/"
# COPY keeps the times of files.
find "$context" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +

if command -v buildah >/dev/null; then
	# shellcheck disable=SC2086 # several options
	buildah ${BUILDAH_OPTIONS:-} bud --isolation chroot --format docker --timestamp "$SOURCE_DATE_EPOCH" --quiet \
		--build-arg "VERSION=$version" --file packaging/image/Containerfile --tag "$name" "$context" >/dev/null
	# shellcheck disable=SC2086
	size=$(buildah ${BUILDAH_OPTIONS:-} images --format '{{.Size}}' "$name")
elif command -v docker >/dev/null; then
	docker build --quiet --build-arg "VERSION=$version" --file packaging/image/Containerfile --tag "$name" "$context" >/dev/null
	size=$(docker image inspect --format '{{.Size}}' "$name" | numfmt --to=si --suffix=B)
else
	echo "neither buildah nor docker is installed: apt-get install buildah" >&2
	exit 1
fi
echo "image $name: $size, $(gzip --fast --stdout "$binary" "$bundle" | wc -c | numfmt --to=si --suffix=B) to download"
