.PHONY: conformance conformance-fast conformance-check

comma := ,

# make takes variables from the environment too; a KUBECONFIG that happens to be
# there must not become the server under test.
CONFORMANCE_TARGET = $(if $(findstring command,$(origin KUBECONFIG)),-kubeconfig '$(abspath $(KUBECONFIG))')
CONFORMANCE_SIDE = $(if $(findstring command,$(origin SIDE)),-side '$(SIDE)')
CONFORMANCE_LISTS = $(if $(findstring command,$(origin PROFILE)),-lists '$(PROFILE)',$(if $(CONFORMANCE_TARGET)$(CONFORMANCE_SIDE),-lists generic))
CONFORMANCE = cd e2e/conformance && go build -o ../../.bin/conformance/run . && ../../.bin/conformance/run $(CONFORMANCE_TARGET)

## conformance: upstream's specs that need no nodes; PROFILE=kubernetes with all types, KUBECONFIG=file for another server, SIDE=kube-apiserver for kube-apiserver without nodes, FOCUS=regexp for a part, LIMIT=25s to end each spec after that time
conformance:
	@$(CONFORMANCE) $(CONFORMANCE_LISTS) $(CONFORMANCE_SIDE) $(if $(FOCUS),-only '$(FOCUS)') $(if $(LIMIT),-limit '$(LIMIT)')

## conformance-fast: a fixed part that takes a few minutes, for CI
conformance-fast:
	@$(CONFORMANCE) -lists $(if $(CONFORMANCE_TARGET),fast,fast$(comma)optin)

## conformance-check: the runner's own tests, and that upstream has every listed spec; needs no server
conformance-check:
	cd e2e/conformance && go vet ./... && go test ./...
