#!/usr/bin/env bash
# Builds the archive of this platform twice, in two places, and compares the
# bytes. Then unpacks it and runs what is in it.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
platform=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
# One commit, also if the branch changes meanwhile.
git clone --quiet --shared . "$work/source"
name=kube-hyper-mini_0.0.1_${platform/\//_}

ssh-keygen -q -t ed25519 -N '' -C test -f "$work/key"
echo "releaser namespaces=\"kube-hyper-mini-release\" $(cut -d' ' -f1,2 "$work/key.pub")" >"$work/allowed"
export SIGNING_KEY=$work/key

for run in one two; do
	mkdir -p "$work/$run/tmp"
	zone=$([ "$run" = one ] && echo UTC || echo Asia/Tokyo)
	TZ=$zone TMPDIR=$work/$run/tmp "$work/source/scripts/release.sh" v0.0.1 "$work/$run/dist" "$platform" >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; exit 1; }
done
diff --recursive "$work/one/dist" "$work/two/dist" || { echo "FAILED: two builds differ" >&2; exit 1; }
echo "ok: two builds give the same bytes: $(cat "$work/one/dist/SHA256SUMS")"
cd "$work/one/dist"
sha256sum --check --quiet SHA256SUMS
verify() { ssh-keygen -q -Y verify -f "$work/allowed" -I releaser -n kube-hyper-mini-release -s SHA256SUMS.sig; }
verify <SHA256SUMS || { echo "FAILED: the signature of the checksums does not verify" >&2; exit 1; }
if { cat SHA256SUMS; echo more; } | verify 2>/dev/null; then
	echo "FAILED: changed checksums verify" >&2
	exit 1
fi
echo "ok: the checksums are signed"
grep -q "\"gitCommit\": \"$(git -C "$work/source" rev-parse HEAD)\"" "$name.provenance.json" &&
	grep -q "$(sha256sum "$name.tar.gz" | cut -d' ' -f1)" "$name.provenance.json" ||
	{ echo "FAILED: the provenance does not name the commit and the archive" >&2; exit 1; }
echo "ok: the provenance names the commit and the archive"
tar -xzOf kube-hyper-mini_0.0.1_kubernetes.tar.gz kube-hyper-mini_0.0.1_kubernetes/embedded/kustomization.yaml | grep -q 'newTag: v0.0.1$' ||
	{ echo "FAILED: the manifests do not name the image of the release" >&2; exit 1; }
echo "ok: the manifests name the image of the release"
tar -xzf "$name.tar.gz"
case $("$name/kube-hyper-mini" version) in
*v0.0.1*) echo "ok: the archive's program runs: $("$name/kube-hyper-mini" version | head -1)" ;;
*) echo "FAILED: not the version of the release" >&2; exit 1 ;;
esac
grep -q '"purl": "pkg:golang/k8s.io/kubernetes@v' "$name.sbom.json" || { echo "FAILED: the SBOM does not name Kubernetes" >&2; exit 1; }
for package in "kube-hyper-mini_0.0.1_$(go env GOHOSTARCH).deb" kube-hyper-mini-0.0.1-1.*.rpm; do
	grep -q "  $package$" SHA256SUMS || { echo "FAILED: the checksums do not have the package $package: $(cat SHA256SUMS)" >&2; exit 1; }
done
echo "ok: the checksums have the packages"
echo "ok: the SBOM names $(grep -c '"purl"' "$name.sbom.json") packages"
