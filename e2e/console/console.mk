# The console: its web application, and its tests in a browser. Building the
# application needs Node.js and npm; everything else uses the built files.
WEB := internal/console/web

.PHONY: console console-check console-test console-kube-apiserver console-scale console-definitions console-screenshots

## console: build the console's web application into internal/console/web/dist (needs npm)
console:
	cd $(WEB) && npm ci --no-audit --no-fund --ignore-scripts && npm run --silent check && npm run --silent build

## console-check: that the built files of the console are those of its sources, at most 600 kB compressed (needs npm)
console-check: console
	git diff --exit-code -- $(WEB)/dist
	@test -z "$$(git status --porcelain -- $(WEB)/dist)" || { git status --short -- $(WEB)/dist; exit 1; }
	@size=$$(cat $(WEB)/dist/* | gzip -9 | wc -c); echo "the console takes $$size bytes compressed"; test $$size -le 600000

## console-test: the console's pages in Debian's Chromium
console-test:
	cd e2e && go test -count=1 -timeout 20m ./console

## console-kube-apiserver: the console on kube-apiserver, which takes minutes to build
console-kube-apiserver:
	cd e2e && KHM_KUBE_APISERVER=yes go test -count=1 -timeout 30m -run TestKubeAPIServer ./console

## console-scale: how fast the console shows and scrolls 2,000 CRDs, and 100,000 objects
console-scale:
	cd e2e && KHM_CONSOLE_SCALE=yes go test -count=1 -timeout 30m -v -run "TestManyDefinitions|TestManyObjects" ./console

## console-definitions: the CRDs that Crossplane makes of the tests' composite resources
console-definitions:
	{ echo "# Made of xrds.yaml by Crossplane's generator: make console-definitions."; cd e2e/definitions && go run . <../console/testdata/xrds.yaml; } >e2e/console/testdata/crossplane.yaml

## console-screenshots: pictures of the console's main pages, in dist/screenshots
console-screenshots:
	mkdir -p dist/screenshots
	cd e2e && go test -count=1 -timeout 20m -run "TestScreenshots|TestReadmePictures" ./console -screenshots $(CURDIR)/dist/screenshots
