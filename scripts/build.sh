#!/usr/bin/env bash
# Runs go build and shows how many packages it has compiled: the first build compiles
# all of them, later ones few or none.
#   build.sh ARGUMENTS-OF-GO-BUILD
set -euo pipefail
total=$(go list -deps . | wc -l)
terminal=
if [ -t 1 ]; then terminal=1; fi
# -v prints the path of each package; all other lines, as errors, are passed on.
go build -v "$@" 2>&1 | awk -v terminal="$terminal" -v total="$total" '
	/^[^# ][^ ]*$/ {
		n++
		if (terminal) { printf "\r%d of at most %d packages compiled", n, total; fflush() }
		else if (n % 200 == 0) { printf "%d of at most %d packages compiled\n", n, total; fflush() }
		next
	}
	{ if (terminal && n) printf "\n"; print; fflush() }
	END { if (terminal && n) printf "\n" }'
