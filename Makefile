# One Kubernetes line: this version, and go.mod, are all there is to bump.
KUBERNETES := $(shell go list -m -f '{{.Version}}' k8s.io/kubernetes)
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-dev)
STAMP      := -X k8s.io/component-base/version.gitVersion=$(KUBERNETES) -X k8s.io/client-go/pkg/version.gitVersion=$(KUBERNETES)
LDFLAGS    := -s -w -X kube-hyper-mini.io/kube-hyper-mini/internal/version.release=$(VERSION) $(STAMP)
PLATFORMS  := linux/arm64 darwin/arm64 windows/amd64

# The product has no cgo, and one setting means one build cache.
export CGO_ENABLED := 0

.PHONY: help build test unit windows alerts crds-long planes-long planes-suites e2e e2e-fast race lint vet fmt-check staticcheck platforms bench conformance bump clean

## help: this list
help:
	@sed -n 's/^## \([a-z0-9-]*\): \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

## build: the static binary, with its versions stamped
build:
	@echo "building kube-hyper-mini $(VERSION); the first build takes minutes and 2.9 GB of cache"
	@scripts/build.sh -trimpath -ldflags '$(LDFLAGS)' -o kube-hyper-mini .

## test: unit tests, tests of the alert rules, and end-to-end tests
test: unit alerts e2e

# `make lint` vets them.
## unit: unit tests, in seconds once built
unit:
	go test -vet=off -timeout 60m ./...

## crds-long: 1,000 CRDs that are used as soon as their creation is answered, and the deletion of one with 10,000 objects
crds-long:
	cd e2e && CRD_ROUNDS=1000 CRD_OBJECTS=10000 go test -count=1 -timeout 60m -v -run 'TypesAreUsableAtOnce|TestDefinitionIsDeletedWithItsObjects' .

## planes-long: a control plane that sleeps 100 times while clients watch and write; 100 kills of a server with control planes
planes-long:
	PLANES_SLEEPS=100 go test -count=1 -timeout 60m -v -run NoEventIsLost ./internal/planes
	cd e2e && FAULT_ROUNDS=100 go test -count=1 -timeout 2h -v -run KillWithPlanes ./faults

## planes-suites: upstream's conformance specs and controller-runtime's suite pkg/client on control planes of a server that sleep in between; FOCUS=regexp for a part
planes-suites:
	scripts/planes-suites.sh generic '$(or $(FOCUS),.)'

## windows: unit tests of packages with code for Windows, under Wine 10 (WINE=program to run them)
windows:
	GOOS=windows go test -exec '$(or $(WINE),wine)' ./internal/admin ./internal/backup ./internal/cli ./internal/console ./internal/datadir ./internal/encryption ./internal/envtest ./internal/etcd/datastore ./internal/pki ./internal/testplane/...

## alerts: the tests of the alert rules in packaging/monitoring, with promtool, whose first build takes 90 s on two cores
alerts:
	cd e2e/monitoring && go vet ./... && go test -timeout 60m ./...

# The packages of tests use what is built once. `make lint` vets them.
BUILT := KHM_BINARY=$(CURDIR)/.bin/kube-hyper-mini KHM_KUBECTL=$(CURDIR)/.bin/kubectl
.PHONY: built
built: .bin/kubectl
	go build -ldflags -w -o .bin/kube-hyper-mini .

# -count=1: a result from the cache would be that of another binary. -parallel: many tests
# wait for leases and processes, and leave the processor to others.
## e2e: the real binary and the real kubectl, in about ten minutes
e2e: built
	cd e2e && $(BUILT) go test -count=1 -vet=off -parallel 4 -timeout 2h ./...

## e2e-fast: the end-to-end tests to run while working, at least one for each package that a user can see, in about a minute
e2e-fast: built
	$(BUILT) scripts/e2e-fast.sh

## race: all unit tests with the race detector (needs a C compiler; the first build takes ten minutes)
race:
	CGO_ENABLED=1 go test -race ./...

## lint: gofmt, go vet, staticcheck
lint: fmt-check vet staticcheck

## fmt-check: that all Go files are formatted
fmt-check:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not gofmt-ed: $$unformatted"; exit 1; }

## vet: go vet, of the product and of the tests
vet:
	go vet ./...
	cd e2e && go vet ./...

## staticcheck: the linter
staticcheck:
	cd e2e && go build -o ../.bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	.bin/staticcheck ./...
	cd e2e && ../.bin/staticcheck ./...

# Several packages: go compiles them, and links none. `make release` links.
## platforms: that it compiles for each platform
platforms:
	@for platform in $(PLATFORMS); do \
		echo "compile for $$platform"; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} go build ./config/... ./controlplane/... ./internal/... || exit 1; \
	done

## bench: both sides side by side; RUN=name for one figure, RUNS=n for the number of runs; RUN=crds loads the CRDs of ../shared/crds
bench:
	cd e2e && go run ./bench $(if $(RUN),-run $(RUN)) $(if $(RUNS),-runs $(RUNS))

## bump: KUBERNETES=v1.37.0 or ETCD=v3.7.0: change the versions in the modules that follow them, and list what to check by hand
bump:
	scripts/bump "$(if $(filter command line,$(origin KUBERNETES)),$(KUBERNETES))" "$(ETCD)"

## clean: remove what was built
clean:
	rm -rf kube-hyper-mini .bin dist

-include packaging/packaging.mk
-include e2e/conformance/conformance.mk
-include e2e/envtest/envtest.mk
-include e2e/clients/clients.mk
-include e2e/faults/faults.mk
-include e2e/console/console.mk
