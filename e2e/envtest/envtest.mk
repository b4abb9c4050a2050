## envtest: controller-runtime's own suites on the programs of kube-hyper-mini envtest; ASSETS=DIR for those of another control plane, SUITES=pkg/cache,pkg/webhook for some of the suites
.PHONY: envtest envtest-fast
envtest:
	cd e2e/envtest && go run . $(if $(ASSETS),-assets $(abspath $(ASSETS))) $(if $(SUITES),-suites $(SUITES))

## envtest-fast: four of those suites
envtest-fast:
	cd e2e/envtest && go run . -fast
