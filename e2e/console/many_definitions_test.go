package console

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// manyDefinitions is the number of CRDs of TestManyDefinitions.
const manyDefinitions = 2000

// TestManyDefinitions prints how fast the types of a server with 2,000 CRDs of Gateway API
// and cert-manager are shown and scrolled, and checks that the page has the rows in view
// only.
func TestManyDefinitions(t *testing.T) {
	if os.Getenv("KHM_CONSOLE_SCALE") == "" {
		t.Skip("make console-scale runs it: it takes minutes")
	}
	s := harness.Start(t)
	createCopies(t, s)
	p := openIn(t, ownBrowser(t), launch(t, "--data-dir", s.Dir), "#/access")
	p.sees("Who may")
	p.visit("#/types")
	p.paints("Certificate")
	p.drawsFew()
	p.scrolls("2,000 CRDs")
	p.drawsFew()
	p.fill("Filter types", "copy077 certificate")
	p.sees("Certificate", "copy077.cert-manager.io")
}

// TestManyObjects prints the same for 100,000 objects of a type: while pages of them are
// loaded, once all are, and while objects change.
func TestManyObjects(t *testing.T) {
	if os.Getenv("KHM_CONSOLE_SCALE") == "" {
		t.Skip("make console-scale runs it: it measures times")
	}
	server := &many{types: 20, objects: 100_000}
	p := openIn(t, ownBrowser(t), launch(t, "--kubeconfig", server.serve(t)), "#/access")
	p.sees("Who may")
	p.visit("#/objects/scale.example.org/v1/things")
	p.paints("100,000 objects")
	p.scrolls("500 of 100,000 objects, and further pages")
	p.click("Load all 100,000")
	p.lacks("are loaded")
	p.scroll("0")
	p.scrolls("100,000 objects")
	stop, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond): // the rate of the changes
				server.tell("MODIFIED", i%2000)
			}
		}
	}()
	p.scroll("0")
	p.scrolls("100,000 objects, of which 50 change in a second")
	close(stop)
	<-told
	p.drawsFew()
}

// paints loads the page again, and prints when it shows something, and rows with a text.
func (p *page) paints(text string) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, protocol.AddScriptToEvaluateOnNewDocument, protocol.AddScriptToEvaluateOnNewDocumentParams{Source: firstRow}); err != nil {
		p.t.Fatal(err)
	}
	for range 3 {
		p.run("reload", reload())
		p.sees(text)
		p.await("the rows are drawn", func() error {
			if drawn := evaluate[bool](p, `!!window.firstRow`); !drawn {
				return fmt.Errorf("they are not yet")
			}
			return nil
		})
		p.t.Logf("first paint after %.0f ms, first rows after %.0f ms", evaluate[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`), evaluate[float64](p, `window.firstRow`))
	}
}

// scrolls scrolls the table from its top, and prints how long the frames take.
func (p *page) scrolls(what string) {
	p.t.Helper()
	p.run("scroll", script(scrolled))
	p.await("it is scrolled", func() error {
		if done := evaluate[bool](p, `!!window.frameTimes`); !done {
			return fmt.Errorf("it is not yet")
		}
		return nil
	})
	frames := evaluate[[]float64](p, `window.frameTimes`)
	long, _ := slices.BinarySearch(frames, 34)
	p.t.Logf("scrolling %s: of %d frames the median takes %.0f ms, the 95th percentile %.0f ms, the longest %.0f ms; %d take more than 34 ms",
		what, len(frames), frames[len(frames)/2], frames[len(frames)*95/100], frames[len(frames)-1], len(frames)-long)
}

// createCopies creates the CRDs, in groups of their own for each copy.
func createCopies(t *testing.T, s *harness.Server) {
	t.Helper()
	dirs, err := download()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for module, pattern := range map[string]string{gatewayAPI: "config/crd/standard/gateway.networking.k8s.io_*.yaml", certManager: "deploy/crds/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(dirs[module], pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("find the CRDs of %s: %v", module, err)
		}
		files = append(files, found...)
	}
	for i := range manyDefinitions {
		text := harness.ReadFile(t, files[i%len(files)])
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			t.Fatal(err)
		}
		if crd.GetKind() != "CustomResourceDefinition" {
			continue
		}
		spec := crd.Object["spec"].(map[string]any)
		group := fmt.Sprintf("copy%03d.%s", i/len(files), spec["group"])
		plural, _, _ := strings.Cut(crd.GetName(), ".")
		spec["group"] = group
		delete(spec, "conversion")
		crd.SetName(plural + "." + group)
		if _, err := s.Dynamic().Resource(definitions).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create the CRD %s: %v", crd.GetName(), err)
		}
	}
}

// firstRow notes when the first row of a table is drawn.
const firstRow = `new MutationObserver((_, observer) => {
	if (!document.querySelector(".row-slot")) return;
	observer.disconnect();
	requestAnimationFrame(() => setTimeout(() => { window.firstRow = performance.now(); }));
}).observe(document, {subtree: true, childList: true});`

// scrolled scrolls the table by 200 pixels in each frame and sorts the times of frames.
const scrolled = `(() => {
	const scroller = document.querySelector(".scroller"), times = [];
	delete window.frameTimes;
	let last = performance.now();
	const step = (now) => {
		times.push(now - last);
		last = now;
		scroller.scrollTop += 200;
		if (times.length < 300) requestAnimationFrame(step); else window.frameTimes = times.sort((a, b) => a - b);
	};
	requestAnimationFrame(step);
})()`
