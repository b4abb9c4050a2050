package console

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	protocol "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

var screenshots = flag.String("screenshots", "", "directory to write pictures of the main pages to")

// view is a page to look at, once it shows a text.
type view struct {
	name, hash, sees string
	// write is text for the editor, and click a button to click, first.
	write, click string
}

const (
	claim    = "#/object/platform.example.org/v1alpha1/postgresqls/shop/orders"
	longName = "a-name-that-is-as-long-as-names-of-objects-often-are-in-clouds-where-they-have-a-region-eu-central-1-an-account-123456789012-and-a-purpose.example.org"
)

// views are the main pages, of the objects that [looked] makes. The page before one with
// a click has no such button.
var views = []view{
	{name: "overview", hash: "#/", sees: "Changed lately"},
	{name: "types", hash: "#/types", sees: "ConfigMap"},
	{name: "notype", hash: "#/types?q=nothing-has-this-name", sees: "No type matches"},
	{name: "objects", hash: "#/objects/cloud.example.org/v1/databases", sees: "orders"},
	{name: "all", hash: "#/objects/apiextensions.k8s.io/v1/customresourcedefinitions", sees: "xpostgresqls"},
	{name: "long", hash: "#/objects/core/v1/configmaps?ns=shop", sees: "a-name-that"},
	{name: "empty", hash: "#/objects/cloud.example.org/v1/volumes?ns=default", sees: "No objects."},
	{name: "object", hash: claim, sees: "Conditions"},
	{name: "longobject", hash: "#/object/core/v1/configmaps/shop/" + longName, sees: "Metadata"},
	{name: "namespace", hash: "#/object/core/v1/namespaces/-/shop", sees: "Database 2"},
	{name: "secret", hash: "#/object/core/v1/secrets/shop/password", sees: "Keys"},
	{name: "yaml", hash: claim + "?tab=yaml", sees: "resourceRef"},
	{name: "search", hash: claim + "?tab=yaml", sees: "by word", click: "Search"},
	{name: "relations", hash: claim + "?tab=tree", sees: "orders-x7k2p-net"},
	{name: "events", hash: claim + "?tab=events", sees: "No events"},
	{name: "managers", hash: claim + "?tab=managers", sees: "kubectl"},
	{name: "review", hash: "#/new/cloud.example.org/v1/databases?ns=shop", sees: "Cannot review", click: "Review"},
	{name: "delete", hash: "#/object/platform.example.org/v1alpha1/xpostgresqls/-/orders-x7k2p", sees: "These go too", click: "Delete"},
	{name: "edit", hash: "#/edit/cloud.example.org/v1/databases/shop/orders", sees: "engine"},
	{name: "diff", hash: "#/edit/core/v1/configmaps/shop/" + longName, write: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + longName + "\n  namespace: shop\n  annotations:\n    example.org/team: a\ndata:\n  added: line\n", click: "Review", sees: "dry run"},
	{name: "conflict", hash: "#/edit/cloud.example.org/v1/databases/shop/users", write: "apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: users\n  namespace: shop\nspec:\n  engine: mysql\n  size: 6\n", click: "Review", sees: "A person has set fields that you change"},
	{name: "schema", hash: "#/schema/cloud.example.org/v1/databases", sees: "Size in gigabytes"},
	{name: "versions", hash: "#/schema/cloud.example.org/v1/databases?compare=v1beta1", sees: "gigabytes"},
	{name: "access", hash: "#/access", sees: "cluster-admin"},
	{name: "missing", hash: "#/object/core/v1/configmaps/shop/none", sees: "not found"},
	{name: "noroute", hash: "#/nothing", sees: "Not found"},
}

// planeViews are the pages about control planes, of [withPlanes].
var planeViews = []view{
	{name: "planes-home", hash: "#/", sees: "Changed lately"},
	{name: "planes", hash: planes, sees: "broken"},
	{name: "planes-picker", hash: planes + "?q=a", sees: "All control planes", click: "this server"},
	{name: "planes-create", hash: planes + "?q=", sees: "Deleted after", click: "Create"},
	{name: "planes-object", hash: "#/object/planes.kube-hyper-mini.io/v1alpha1/controlplanes/-/broken", sees: "Open its console"},
	{name: "planes-delete", hash: "#/object/planes.kube-hyper-mini.io/v1alpha1/controlplanes/-/acme", sees: "Nothing depends", click: "Delete"},
}

// looked is a server with the objects that views show.
func looked(t *testing.T) *harness.Server {
	t.Helper()
	s := platform(t)
	fill(t, s)
	s.Kubectl("", "create", "configmap", longName, "-n", "shop")
	s.Kubectl("", "annotate", "configmap", longName, "-n", "shop", "--field-manager=kube-hyper-mini-console", "example.org/"+strings.Repeat("long", 10)+"="+strings.Repeat("text-without-a-space", 20))
	return s
}

// look goes to the page of a view.
func (p *page) look(v view) {
	p.t.Helper()
	p.run("leave what was looked at", script(`document.querySelector("dialog[open]")?.close(); document.querySelector(".picker")?.removeAttribute("open")`))
	p.visit(v.hash)
	if v.write != "" {
		p.write(v.write)
	}
	if v.click != "" {
		p.click(v.click)
	}
	p.sees(v.sees)
}

// TestScreenshots writes pictures of the main pages for a person to look at:
// with few objects and with very many.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("writes pictures with -screenshots DIR only")
	}
	few := open(t, launch(t, "--data-dir", looked(t).Dir), "#/objects/core/v1/namespaces")
	few.sees("shop")
	few.shoot(views)
	several := open(t, launch(t, "--data-dir", withPlanes(t).Dir), "")
	several.shoot(planeViews)
	for _, name := range []string{"acme", "broken"} {
		several.run("go to "+name, chromedp.Navigate(several.host+"/clusters/"+name))
		several.sees(name)
		several.shoot([]view{{name: "planes-in-" + name, hash: "#/", sees: name}})
	}
	server := &many{types: 2000, objects: 100_000}
	open(t, launch(t, "--kubeconfig", server.serve(t)), "#/types").shoot([]view{
		{name: "many-types", hash: "#/types", sees: "group000.example.org"},
		{name: "many-objects", hash: "#/objects/scale.example.org/v1/things", sees: "thing-000000"},
	})
}

// shoot takes pictures of the views, in light and dark, wide and narrow.
func (p *page) shoot(views []view) {
	p.t.Helper()
	for _, each := range []struct {
		width, height int64
		scheme        string
	}{{1440, 900, "light"}, {1440, 900, "dark"}, {400, 800, "light"}, {400, 800, "dark"}, {360, 740, "light"}, {360, 740, "dark"}} {
		p.size(each.width, each.height, each.scheme)
		for _, v := range views {
			p.look(v)
			picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				p.t.Fatalf("take a picture: %v", err)
			}
			name := filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", v.name, each.width, each.scheme))
			if err := os.WriteFile(name, picture, 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// TestNarrow: on the narrowest screens, dark and light, nothing on a page is out of
// reach to the right, and all text has enough contrast.
func TestNarrow(t *testing.T) {
	t.Parallel()
	p := open(t, launch(t, "--data-dir", looked(t).Dir), "#/objects/core/v1/namespaces")
	p.sees("shop")
	for _, v := range views {
		p.look(v)
		p.hasNoFaults(v.name)
	}
	several := open(t, launch(t, "--data-dir", withPlanes(t).Dir), "")
	for _, v := range planeViews {
		several.look(v)
		several.hasNoFaults(v.name)
	}
	p.press("/", "validating")
	p.sees("ValidatingAdmissionPolicyBinding")
	p.hasNoFaults("the search of types")
}

// hasNoFaults checks what the page shows on the narrowest screen.
func (p *page) hasNoFaults(name string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.size(360, 740, scheme)
		// Charts and lists follow the size of the window a moment later.
		p.await(name+" has no faults, "+scheme, func() error {
			if found := evaluate[[]string](p, faults); len(found) > 0 {
				return fmt.Errorf("%q", found)
			}
			return nil
		})
	}
}

// contrasts are functions of JavaScript: the contrast of a color with what is behind an
// element, as WCAG 2 defines it.
const contrasts = `
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const color = (text) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = text;
		canvas.fillRect(0, 0, 1, 1);
		const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
		return {rgb: [r, g, b], alpha: a / 255};
	};
	const over = (top, below) => top.rgb.map((part, i) => part * top.alpha + below[i] * (1 - top.alpha));
	const behind = (e) => e ? over(color(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [255, 255, 255];
	const bright = (rgb) => {
		const [r, g, b] = rgb.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const contrast = (text, ground) => {
		const [dark, light] = [bright(over(color(text), ground)), bright(ground)].sort((a, b) => a - b);
		return (light + 0.05) / (dark + 0.05);
	};
`

// faults finds text that is wider than the window outside of what scrolls, text with less
// contrast than 4.5 to 1 (WCAG 2, level AA), and text on a picture or a gradient, of which
// the contrast is not known.
const faults = `(() => {` + contrasts + `
	const found = [];
	const scrolls = (e) => e && (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX) ? e !== document.body : scrolls(e.parentElement));
	if (document.documentElement.scrollWidth > innerWidth) found.push("the page is " + document.documentElement.scrollWidth + " pixels wide");
	for (const e of document.querySelectorAll("body *")) {
		const text = [...e.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join("").trim();
		if (!text || e.matches("script, style, option, svg *, :disabled") || !e.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
		if (e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e)) found.push("out of the window: " + text.slice(0, 60));
		if (getComputedStyle(e).backgroundImage !== "none") found.push("on a picture: " + text.slice(0, 60));
		const reached = contrast(getComputedStyle(e).color, behind(e));
		if (reached < 4.5) found.push("contrast " + reached.toFixed(1) + ": " + text.slice(0, 60));
	}
	return [...new Set(found)];
})()`

// TestReadmePictures writes the pictures of the README: small, in WebP. The
// charts have some requests to show.
func TestReadmePictures(t *testing.T) {
	if *screenshots == "" {
		t.Skip("writes pictures with -screenshots DIR only")
	}
	s := platform(t)
	p := openIn(t, browser(t), launch(t, "--data-dir", s.Dir), "") // the charts are those of the usual pauses
	for _, v := range []view{{name: "overview", hash: "#/", sees: "checks passed"}, {name: "relations", hash: claim + "?tab=tree", sees: "orders-x7k2p-net"}} {
		p.size(1100, 540, "light")
		p.visit(v.hash)
		for range 20 {
			s.Kubectl("", "get", "postgresqls,configmaps", "-A")
		}
		p.sees(v.sees)
		p.lacks("measuring")
		p.await("the charts have points", func() error {
			if count := evaluate[int](p, `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/metrics")).length`); count < 5 {
				return fmt.Errorf("%d samples", count)
			}
			return nil
		})
		p.size(1100, evaluate[int64](p, `Math.ceil(document.querySelector("main").lastElementChild.getBoundingClientRect().bottom) + 20`), "light") // all of it
		picture, err := chromedp.Call(p.ctx, protocol.CaptureScreenshot, protocol.CaptureScreenshotParams{Format: protocol.CaptureScreenshotFormatWebp, Quality: new(int64(85))})
		if err != nil {
			p.t.Fatalf("take a picture: %v", err)
		}
		if err := os.WriteFile(filepath.Join(*screenshots, "console-"+v.name+".webp"), picture.Data, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}
