## envtest: controller-runtime's own suites on the programs of kube-hyper-mini envtest; ASSETS=DIR for those of another control plane
.PHONY: envtest envtest-fast
envtest:
	cd e2e/envtest && go run . $(if $(ASSETS),-assets $(ASSETS))

## envtest-fast: four of those suites
envtest-fast:
	cd e2e/envtest && go run . -fast
