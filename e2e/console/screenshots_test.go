package console

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	protocol "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "directory to write pictures of the main pages to")

// view is a page to take a picture of, once it shows a text.
type view struct{ name, hash, sees string }

// TestScreenshots writes pictures of the main pages for a person to look at:
// with few objects and with very many.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("writes pictures with -screenshots DIR only")
	}
	s := platform(t)
	fill(t, s)
	const claim = "#/object/platform.example.org/v1alpha1/postgresqls/shop/orders"
	few := open(t, launch(t, "--data-dir", s.Dir), "#/objects/core/v1/namespaces")
	few.sees("shop")
	few.shoot([]view{
		{"overview", "#/", "checks passed"},
		{"types", "#/types", "ConfigMap"},
		{"objects", "#/objects/cloud.example.org/v1/databases", "orders"},
		{"object", claim, "Conditions"},
		{"yaml", claim + "?tab=yaml", "resourceRef"},
		{"relations", claim + "?tab=tree", "orders-x7k2p-net"},
		{"events", claim + "?tab=events", "No events"},
		{"managers", claim + "?tab=managers", "kubectl"},
		{"edit", "#/edit/cloud.example.org/v1/databases/shop/orders", "engine"},
		{"schema", "#/schema/cloud.example.org/v1/databases", "Size in gigabytes"},
		{"versions", "#/schema/cloud.example.org/v1/databases?compare=v1beta1", "gigabytes"},
		{"access", "#/access", "Subject"},
		{"missing", "#/object/core/v1/configmaps/shop/none", "not found"},
	})
	server := &many{types: 2000, objects: 100_000}
	open(t, launch(t, "--kubeconfig", server.serve(t)), "#/types").shoot([]view{
		{"many-types", "#/types", "Type0000"},
		{"many-objects", "#/objects/scale.example.org/v1/things", "thing-000000"},
	})
}

// shoot takes pictures of the views, in light and dark, wide and narrow.
func (p *page) shoot(views []view) {
	p.t.Helper()
	for _, each := range []struct {
		width, height int64
		scheme        string
	}{{1440, 900, "light"}, {1440, 900, "dark"}, {400, 800, "light"}, {400, 800, "dark"}} {
		p.size(each.width, each.height, each.scheme)
		for _, v := range views {
			p.visit(v.hash)
			p.sees(v.sees)
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

// TestReadmePictures writes the pictures of the README: small, in WebP. The
// charts have some requests to show.
func TestReadmePictures(t *testing.T) {
	if *screenshots == "" {
		t.Skip("writes pictures with -screenshots DIR only")
	}
	s := platform(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	for _, v := range []struct {
		view
		height int64
	}{
		{view{"overview", "#/", "checks passed"}, 532},
		{view{"relations", "#/object/platform.example.org/v1alpha1/postgresqls/shop/orders?tab=tree", "orders-x7k2p-net"}, 440},
	} {
		p.size(1100, v.height, "light")
		p.visit(v.hash)
		for range 20 {
			s.Kubectl("", "get", "postgresqls,configmaps", "-A")
		}
		p.sees(v.sees)
		p.lacks("measuring")
		picture, err := chromedp.Call(p.ctx, protocol.CaptureScreenshot, protocol.CaptureScreenshotParams{Format: protocol.CaptureScreenshotFormatWebp, Quality: new(int64(85))})
		if err != nil {
			p.t.Fatalf("take a picture: %v", err)
		}
		if err := os.WriteFile(filepath.Join(*screenshots, "console-"+v.name+".webp"), picture.Data, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}
