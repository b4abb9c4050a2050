#!/usr/bin/env bash
# Writes the manual pages and the shell completions that the commands describe.
#   man-and-completions.sh BINARY DIR      makes DIR/man/man1, DIR/man/man7 and DIR/completions
set -euo pipefail
binary=$1 dir=$2

rm -rf "$dir"
mkdir -p "$dir/man" "$dir/completions"
"$binary" man "$dir/man"
gzip --best --no-name "$dir"/man/man1/*.1 "$dir"/man/man7/*.7
"$binary" completion bash >"$dir/completions/kube-hyper-mini.bash"
"$binary" completion fish >"$dir/completions/kube-hyper-mini.fish"
"$binary" completion zsh >"$dir/completions/_kube-hyper-mini"
"$binary" completion powershell >"$dir/completions/kube-hyper-mini.ps1"
