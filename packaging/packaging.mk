# Packages, image, release. The scripts do the work and can be run alone.
DIST := dist

.PHONY: completions packages image release packaging-test

## completions: manual pages and shell completions, in dist/share
completions: build
	packaging/scripts/share.sh ./kube-hyper-mini $(DIST)/share

## packages: deb and rpm for this machine's architecture, in dist
packages: build
	packaging/scripts/packages.sh ./kube-hyper-mini $(VERSION) $(DIST)
