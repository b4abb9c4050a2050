#!/usr/bin/env bash
# Installs the last commit as a user installs a release, `go install
# MODULE@VERSION`, from a module proxy in a directory. go refuses there what
# it accepts in a clone, as replace directives. The sums of other modules are
# in go.sum, which a clone's build checks and this does not.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
# go makes directories read-only.
trap 'find "$work" -type d -exec chmod u+w {} + && rm -rf "$work"' EXIT
module=$(go list -m) version=v0.0.1
proxy=$work/proxy/$module/@v
mkdir -p "$proxy" "$work/bin"
# A module cache of its own, whose other modules are links to those that are there.
cache=$(go env GOMODCACHE)
mkdir -p "$work/mod/cache/download"
for entry in "$cache"/* "$cache"/cache/download/*; do
	[ "$entry" = "$cache/cache" ] || ln -s "$entry" "$work/mod/${entry#"$cache/"}"
done
echo "$version" >"$proxy/list"
printf '{"Version":"%s","Time":"%s"}\n' "$version" "$(git log -1 --format=%cI)" >"$proxy/$version.info"
git show HEAD:go.mod >"$proxy/$version.mod"
# Directories with a go.mod of their own are other modules.
others=$(git ls-files '*/go.mod' | sed 's#^\(.*\)/go.mod$#:!\1#')
# shellcheck disable=SC2086 # several paths
git archive --format=zip --prefix="$module@$version/" --output="$proxy/$version.zip" HEAD -- . $others

cd "$work"
# -trimpath, so that what the release has compiled is not compiled again.
GOPROXY="file://$work/proxy,file://$cache/cache/download,$(go env GOPROXY)" GOSUMDB=off GOMODCACHE=$work/mod \
	GOFLAGS=-trimpath GOBIN=$work/bin CGO_ENABLED=0 go install "$module@$version" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
case $("$work/bin/kube-hyper-mini" version) in
"kube-hyper-mini $version"*) echo "ok: go install $module@$version: $("$work/bin/kube-hyper-mini" version | tr '\n' ' ')" ;;
*) echo "FAILED: $("$work/bin/kube-hyper-mini" version)" >&2; exit 1 ;;
esac
