# The console: its web application, and its tests in a browser. Building the
# application needs Node.js and npm; everything else uses the built files.
WEB := internal/console/web

.PHONY: console console-check console-test console-screenshots

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

## console-screenshots: pictures of the console's main pages, in dist/screenshots
console-screenshots:
	mkdir -p dist/screenshots
	cd e2e && go test -count=1 -timeout 20m -run "TestScreenshots|TestReadmePictures" ./console -screenshots $(CURDIR)/dist/screenshots
