package console

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "directory to write pictures of the main pages to")

// TestScreenshots writes pictures of the main pages for a person to look at.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("writes pictures with -screenshots DIR only")
	}
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	pages := []struct{ name, hash, sees string }{
		{"overview", "#/", "Requests per second"},
		{"types", "#/types", "Database"},
		{"objects", "#/objects/cloud.example.org/v1/databases", "orders"},
		{"object", "#/object/cloud.example.org/v1/databases/shop/orders", "Conditions"},
		{"yaml", "#/object/cloud.example.org/v1/databases/shop/orders?tab=yaml", "engine"},
		{"relations", "#/object/cloud.example.org/v1/databases/shop/orders?tab=tree", "orders-log"},
		{"edit", "#/edit/cloud.example.org/v1/databases/shop/orders", "engine"},
		{"schema", "#/schema/cloud.example.org/v1/databases", "Size in gigabytes"},
		{"access", "#/access", "Who may"},
	}
	for _, view := range []struct {
		width, height int64
		scheme        string
	}{{1440, 900, "light"}, {1440, 900, "dark"}, {400, 800, "light"}, {400, 800, "dark"}} {
		p.size(view.width, view.height, view.scheme)
		for _, each := range pages {
			p.visit(each.hash)
			p.sees(each.sees)
			picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatalf("take a picture: %v", err)
			}
			name := filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", each.name, view.width, view.scheme))
			if err := os.WriteFile(name, picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
