#!/usr/bin/env bash
# Makes the archives of a release, with checksums and bills of materials, of
# the last commit: changes that are not committed are not in it. The same
# commit gives the same bytes, wherever it is built.
#   release.sh VERSION DIR [OS/ARCH ...]
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
mkdir -p "$2"
out=$(realpath "$2")
shift 2
if [ $# = 0 ]; then
	set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
fi
VERSION=$version
export VERSION CGO_ENABLED=0 GOFLAGS=-mod=readonly
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --shared . "$work/source"
cd "$work/source"

kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
flags="-s -w -buildid= -X kube-hyper-mini.io/kube-hyper-mini/internal/version.release=$version"
flags="$flags -X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes"
(cd packaging/tools && go build -o "$work/release" ./release)

build() { # OS ARCH FILE
	GOOS=$1 GOARCH=$2 go build -trimpath -ldflags "$flags" -o "$3" .
}
# The pages come from a program that runs here.
build "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)" "$work/host"
scripts/share.sh "$work/host" "$work/share"

cd "$work"
for platform in "$@"; do
	os=${platform%/*} arch=${platform#*/}
	name=kube-hyper-mini_${version#v}_${os}_${arch}
	echo "build $name"
	mkdir "$work/$name"
	program=$work/$name/kube-hyper-mini archive=$out/$name.tar.gz
	if [ "$os" = windows ]; then
		program=$program.exe archive=$out/$name.zip
	fi
	(cd source && build "$os" "$arch" "$program")
	cp source/LICENSE source/config/config.yaml "$work/$name/"
	if [ -e source/README.md ]; then cp source/README.md "$work/$name/"; fi
	cp -r share "$work/$name/"
	"$work/release" sbom "$program" "$out/$name.sbom.json"
	"$work/release" archive "$archive" "$work/$name"
	rm -r "${work:?}/$name"
done
cd "$out"
sha256sum "kube-hyper-mini_${version#v}"_* >SHA256SUMS
echo "$out:"
ls -lh "$out"
