package console

import (
	"errors"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const (
	// maxRows of a table exist in the page at once, however many it has.
	maxRows = 150
	// maxHeap bounds the page's JavaScript heap with 100,000 objects, in bytes.
	maxHeap = 150e6
)

// TestVeryMany: with 2,000 types and 100,000 objects of one, the page holds the
// rows in view only, loads objects page by page or all of them, filters, sorts
// and follows changes.
func TestVeryMany(t *testing.T) {
	t.Parallel()
	server := &many{types: 2000, objects: 100_000}
	p := openIn(t, ownBrowser(t), launch(t, "--kubeconfig", server.serve(t)), "#/types")
	p.sees("2,001", "group000.example.org")
	t.Logf("first paint after %.0f ms", evaluate[float64](p, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1`))
	p.drawsFew()
	p.scroll("1e9")
	p.sees("scale.example.org")
	p.drawsFew()
	p.fill("Filter types", "type1234")
	p.sees("1 of 2,001", "Type1234")

	// A name that leads to another path is refused.
	p.visit("#/object/scale.example.org/v1/things/-/%2e%2e")
	p.sees("/apis/scale.example.org/v1/things/.. is not a path of the API")

	p.visit("#/objects/scale.example.org/v1/things")
	p.sees("100,000 objects", "500 of 100,000 are loaded", "thing-000000")
	p.drawsFew()
	p.scroll("1e9")
	p.sees("2,500 of 100,000 are loaded")
	p.await("the watch has begun", func() error {
		if server.tell("ADDED", 200_000) == 0 {
			return errors.New("no watch")
		}
		return nil
	})
	p.sees("100,001 objects")
	server.tell("MODIFIED", 60_000) // not loaded
	server.tell("DELETED", 70_000)  // not loaded
	p.sees("100,000 objects")
	p.click("Load all 100,000")
	p.lacks("are loaded")
	p.fill("Filter rows", "thing-0700")
	p.sees("99 of 100,000 rows match") // one of the hundred was deleted
	p.fill("Filter rows", "")
	p.click("Size")
	p.sees("Size ↑")
	p.click("Size ↑")
	p.sees("Size ↓", "100,000 objects")
	server.tell("DELETED", 200_000)
	p.sees("99,999 objects")
	p.drawsFew()
	p.heapIsSmall()
	p.fill("Label selector", "number")
	p.sees("more than 500 objects")
	p.click("Load all")
	p.sees("1,000 objects")
	p.lacks("more than")
}

// heapIsSmall checks the memory that the page's scripts use.
func (p *page) heapIsSmall() {
	t := p.t
	t.Helper()
	if _, err := chromedp.Call(p.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	heap, err := chromedp.Call(p.ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the page's heap with 100,000 objects: %.0f MB", heap.UsedSize/1e6)
	if heap.UsedSize > maxHeap {
		t.Errorf("the page's heap has %.0f MB, want at most %.0f", heap.UsedSize/1e6, maxHeap/1e6)
	}
}

// scroll moves the table to an offset, in pixels.
func (p *page) scroll(top string) {
	p.t.Helper()
	p.run("scroll", chromedp.Evaluate[chromedp.Void](`document.querySelector(".scroller").scrollTop = `+top))
}

// await waits for a condition that is not one of the page.
func (p *page) await(what string, check func() error) {
	p.t.Helper()
	harness.Eventually(p.t, what, check)
}

// drawsFew waits until the page has the rows in view only.
func (p *page) drawsFew() {
	p.t.Helper()
	p.await("few rows are drawn", func() error {
		if rows := evaluate[int](p, `document.querySelectorAll(".row-slot").length`); rows == 0 || rows > maxRows {
			return fmt.Errorf("%d rows, want 1 to %d", rows, maxRows)
		}
		return nil
	})
}
