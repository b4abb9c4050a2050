#!/usr/bin/env bash
# Makes the archives of a release, and packages for Linux, with checksums and bills of
# materials, of the last commit: changes that are not committed are not in it. The same
# commit gives the same bytes, wherever it is built. Beside each archive lies its
# provenance (in-toto, SLSA v1). The manifests for a cluster name the image of this
# version.
#   release.sh VERSION DIR [OS/ARCH ...]
# SIGNING_KEY, an OpenSSH private key, signs SHA256SUMS, and with it all files, as
# SHA256SUMS.sig, without a network. Verify them with
#   ssh-keygen -Y verify -f ALLOWED_SIGNERS -I NAME -n kube-hyper-mini-release -s SHA256SUMS.sig <SHA256SUMS
#   sha256sum --check SHA256SUMS
# BUILDER_ID is the URI of the builder, for the provenance.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
if [ -n "${SIGNING_KEY:-}" ]; then
	SIGNING_KEY=$(realpath -e "$SIGNING_KEY") # before an hour of building
	command -v ssh-keygen >/dev/null || { echo "ssh-keygen is not installed, which signs: apt-get install openssh-client" >&2; exit 1; }
fi
mkdir -p "$2"
out=$(realpath "$2")
shift 2
if [ $# = 0 ]; then
	set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
fi
export CGO_ENABLED=0 GOFLAGS=-mod=readonly
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --shared . "$work/source"
cd "$work/source"

commit=$(git rev-parse HEAD) toolchain=$(go env GOVERSION)
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
flags="-s -w -buildid= -X kube-hyper-mini.io/kube-hyper-mini/internal/version.release=$version"
flags="$flags -X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes"
(cd packaging/tools && go build -o "$work/cyclonedx-gomod" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod)

# The same files give the same bytes, owned by root, with nothing of this machine in them.
pack() { # OUT.tar.gz|OUT.zip DIR
	local date="@$SOURCE_DATE_EPOCH +0000"
	local in=(env -u GIT_DIR -u GIT_WORK_TREE -u GIT_INDEX_FILE -u GIT_OBJECT_DIRECTORY TZ=UTC GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE="$date" GIT_COMMITTER_DATE="$date" git -C "$2"
		-c user.name=release -c user.email=release -c core.compression=0 -c tar.umask=0022)
	"${in[@]}" init --quiet
	"${in[@]}" add --all --force
	"${in[@]}" commit --quiet --message release
	"${in[@]}" archive -9 --prefix "$(basename "$2")/" --output "$1" HEAD
}

# The checksums of the program that writes a bill of materials depend on the platform that it runs on.
without_tool_hashes() { sed '/^  "metadata": {/,/^    "component": {/{/^        "hashes": \[/,/^        \],/d}'; }

# From which commit, with which toolchain and how an archive was built.
provenance() { # ARCHIVE OS/ARCH
	local type=https://kube-hyper-mini.io/scripts/release.sh sum finished
	sum=$(sha256sum "$1")
	finished=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	cat <<-EOF
		{
		  "_type": "https://in-toto.io/Statement/v1",
		  "subject": [{"name": "$(basename "$1")", "digest": {"sha256": "${sum%% *}"}}],
		  "predicateType": "https://slsa.dev/provenance/v1",
		  "predicate": {
		    "buildDefinition": {
		      "buildType": "$type",
		      "externalParameters": {"version": "$version", "platform": "$2"},
		      "internalParameters": {"ldflags": "$flags", "cgoEnabled": "$CGO_ENABLED"},
		      "resolvedDependencies": [
		        {"uri": "git+https://kube-hyper-mini.io/kube-hyper-mini", "digest": {"gitCommit": "$commit"}},
		        {"uri": "https://go.dev/dl/", "name": "$toolchain"}
		      ]
		    },
		    "runDetails": {
		      "builder": {"id": "${BUILDER_ID:-$type}"},
		      "metadata": {"finishedOn": "$finished"}
		    }
		  }
		}
	EOF
}

build() { # OS ARCH FILE
	GOOS=$1 GOARCH=$2 go build -trimpath -ldflags "$flags" -o "$3" .
}
# The pages come from a program that runs here.
build "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)" "$work/host"
scripts/man-and-completions.sh "$work/host" "$work/share"

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
	if [ "$platform" = "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" ]; then
		cp "$work/host" "$program"
	else
		(cd source && build "$os" "$arch" "$program")
	fi
	cp source/LICENSE source/config/config.yaml "$work/$name/"
	if [ -e source/README.md ]; then cp source/README.md "$work/$name/"; fi
	cp -r share "$work/$name/"
	"$work/cyclonedx-gomod" bin -json -disable-html-escape -std -noserial -notimestamp \
		-version "$version" "$program" | without_tool_hashes >"$out/$name.sbom.json"
	pack "$archive" "$work/$name"
	provenance "$archive" "$platform" >"$out/$name.provenance.json"
	if [ "$os" = linux ]; then
		HOST_BINARY=$work/host source/scripts/packages.sh "$program" "$version" "$work/packages"
	fi
	rm -r "${work:?}/$name"
done
packages=()
for package in "$work/packages"/*; do
	if [ ! -e "$package" ]; then continue; fi # none is for Linux
	cp "$package" "$out/"
	packages+=("$(basename "$package")")
done
# The manifests, with the image that this release has.
name=kube-hyper-mini_${version#v}_kubernetes
cp -r source/packaging/kubernetes "$work/$name"
sed -i "s/^  newTag: .*/  newTag: $version/" "$work/$name"/*/kustomization.yaml
pack "$out/$name.tar.gz" "$work/$name"
cd "$out"
# Also a package, whose version may be written like that of an archive, once.
printf '%s\n' "kube-hyper-mini_${version#v}"_* "${packages[@]}" | sort -u | xargs sha256sum >SHA256SUMS
if [ -n "${SIGNING_KEY:-}" ]; then
	rm -f SHA256SUMS.sig
	ssh-keygen -q -Y sign -f "$SIGNING_KEY" -n kube-hyper-mini-release SHA256SUMS
fi
echo "$out:"
ls -lh "$out"
