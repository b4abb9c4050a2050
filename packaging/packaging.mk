# Packages, image, release. The scripts do the work and can be run alone.
DIST     := dist
# Tests use a kubectl of the same Kubernetes, unless they are given another.
KUBECTL  ?= .bin/kubectl
PACKAGED ?= ./kube-hyper-mini

.PHONY: completions packages image release packaging-test test-deb test-rpm test-systemd test-image test-release test-install

## completions: manual pages and shell completions, in dist/share
completions: build
	scripts/man-and-completions.sh ./kube-hyper-mini $(DIST)/share

## packages: deb and rpm for this machine's architecture, in dist
packages: build
	scripts/packages.sh ./kube-hyper-mini $(VERSION) $(DIST)

## image: the container image, with buildah or docker
image: build
	scripts/image.sh ./kube-hyper-mini $(VERSION)

## release: archives, packages, SBOMs and checksums of the last commit for all platforms, in dist
release:
	@grep -q '^## \[$(VERSION:v%=%)\]' packaging/CHANGELOG.md || { echo "packaging/CHANGELOG.md has no section for $(VERSION): tag a commit whose changelog has one (see Releases in .github/CONTRIBUTING.md)" >&2; exit 1; }
	scripts/release.sh $(VERSION) $(DIST)

## packaging-test: packages, image and release for real (Debian, root; apt-get install systemd systemd-container buildah iproute2 procps ca-certificates openssh-client rpm)
packaging-test: test-deb test-rpm test-systemd test-image test-release test-install

test-deb: $(PACKAGED) $(KUBECTL)
	scripts/test-package.sh deb $(PACKAGED) $(KUBECTL)

test-rpm: $(PACKAGED) $(KUBECTL)
	scripts/test-package.sh rpm $(PACKAGED) $(KUBECTL)

test-systemd: $(PACKAGED) $(KUBECTL)
	scripts/test-systemd.sh $(PACKAGED) $(KUBECTL)

test-image: $(PACKAGED) $(KUBECTL)
	scripts/test-image.sh $(PACKAGED) $(KUBECTL)

test-release:
	scripts/test-release.sh

test-install:
	scripts/test-install.sh

# Always: make does not know the sources.
.PHONY: ./kube-hyper-mini .bin/kubectl
./kube-hyper-mini:
	$(MAKE) build

.bin/kubectl:
	mkdir -p .bin
	cd e2e && go build -ldflags '-w $(STAMP)' -o ../.bin/kubectl k8s.io/kubernetes/cmd/kubectl
