package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	protocol "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// chromium is the one that tests share. It starts when the first test needs it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}

// endChromium ends the Chromium that tests have shared.
func endChromium() {
	if chromium.end != nil {
		chromium.end()
	}
}

// startChromium starts a Chromium, whose context is the parent of those of pages. end waits until
// it has ended.
func startChromium() (ctx context.Context, end func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(harness.Patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WindowSize(width, height))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	end = func() {
		_ = chromedp.Cancel(ctx) // says how it ended
		stop()
		cancel()
	}
	if err := chromedp.Do(ctx); err != nil {
		end()
		return nil, nil, fmt.Errorf("start Chromium: %w", err)
	}
	return ctx, end, nil
}

// width and height are those of a window.
const width, height = 1440, 900

// needsChromium skips the test if there is none.
func needsChromium(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("needs Debian's package chromium, which CI installs")
	}
}

// browser returns a context of a page that shares neither cookies nor workers with those of other
// tests.
func browser(t *testing.T) context.Context {
	t.Helper()
	needsChromium(t)
	chromium.once.Do(func() { chromium.ctx, chromium.end, chromium.err = startChromium() })
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	return pageOf(t, chromium.ctx)
}

// ownBrowser returns a context of a page in a Chromium that the test has for itself.
func ownBrowser(t *testing.T) context.Context {
	t.Helper()
	needsChromium(t)
	parent, end, err := startChromium()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return pageOf(t, parent)
}

// pageOf opens a page in a browser context of its own, until the test ends.
func pageOf(t *testing.T, parent context.Context) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatalf("open a page: %v", err)
	}
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // waits until the page has closed
	return ctx
}

// console is a process of `kube-hyper-mini console`.
type console struct {
	address string // with an unused token
	cmd     *exec.Cmd
	errors  *os.File
}

// launch runs a console with further arguments until the test ends.
func launch(t *testing.T, args ...string) *console {
	t.Helper()
	return launchWith(t, nil, append([]string{"--no-browser"}, args...)...)
}

// launchWith runs a console with these arguments and further variables of the
// environment.
func launchWith(t *testing.T, env []string, args ...string) *console {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "console.log"))
	if err != nil {
		t.Fatal(err)
	}
	c := &console{cmd: exec.Command(harness.Binary(t), append([]string{"console"}, args...)...), errors: log}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop(t); _ = log.Close() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the console printed %q: %v\n%s", line, err, text)
	}
	c.address = line[strings.LastIndex(line, "http://"):]
	c.address = strings.TrimSpace(c.address)
	return c
}

// stop ends the console as Ctrl-C does.
func (c *console) stop(t *testing.T) {
	t.Helper()
	if c.cmd.ProcessState != nil {
		return
	}
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the console ended with %v", err)
	}
}

// host is the address without the token.
func (c *console) host() string { return c.address[:strings.Index(c.address, "/?")] }

// log returns what the console has written to standard error.
func (c *console) log(t *testing.T) string {
	t.Helper()
	text := harness.ReadFile(t, c.errors.Name())
	return string(text)
}

// page is a browser on a console.
type page struct {
	t    *testing.T
	ctx  context.Context
	host string
}

// hurry divides the pauses of the console between two loads, of which the shortest takes a second.
// What depends on the clock stays as it is.
const hurry = `(() => {
	const wait = window.setTimeout;
	window.setTimeout = (run, delay, ...args) => wait(run, delay >= 1000 ? delay / 10 : delay, ...args);
})()`

// open has a new page open the console with its token. The console hurries there.
func open(t *testing.T, c *console, hash string) *page {
	t.Helper()
	ctx := browser(t)
	if _, err := chromedp.Call(ctx, protocol.AddScriptToEvaluateOnNewDocument, protocol.AddScriptToEvaluateOnNewDocumentParams{Source: hurry}); err != nil {
		t.Fatal(err)
	}
	return openIn(t, ctx, c, hash)
}

// openIn has the page of a browser open the console with its token.
func openIn(t *testing.T, browser context.Context, c *console, hash string) *page {
	t.Helper()
	p := &page{t, browser, c.host()}
	p.run("open the console", chromedp.Navigate(c.address+hash), chromedp.WaitVisible(chromedp.CSS("header")))
	return p
}

func (p *page) run(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
	defer cancel()
	err := chromedp.Do(ctx, actions...)
	for err != nil && strings.Contains(err.Error(), "Could not find node") { // the page was drawn again meanwhile
		err = chromedp.Do(ctx, actions...)
	}
	if err != nil {
		p.t.Fatalf("%s: %v; the page shows:\n%s", what, err, p.text())
	}
}

// visit goes to a page of the application.
func (p *page) visit(hash string) {
	p.t.Helper()
	p.run("go to "+hash, script("location.hash = %q", hash))
}

// address waits until the address of the page contains a part.
func (p *page) address(part string) {
	p.t.Helper()
	harness.Eventually(p.t, "the address has "+part, func() error {
		if hash := evaluate[string](p, "location.hash"); !strings.Contains(hash, part) {
			return fmt.Errorf("it is %s", hash)
		}
		return nil
	})
}

// text is what the page shows.
func (p *page) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return text
}

// sees waits until the page shows all texts.
func (p *page) sees(texts ...string) {
	p.t.Helper()
	harness.Eventually(p.t, fmt.Sprintf("the page shows %q", texts), func() error {
		shown := p.text()
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				return fmt.Errorf("%q is missing in:\n%s", text, shown)
			}
		}
		return nil
	})
}

// lacks waits until the page does not show the text.
func (p *page) lacks(text string) {
	p.t.Helper()
	harness.Eventually(p.t, fmt.Sprintf("the page does not show %q", text), func() error {
		if shown := p.text(); strings.Contains(shown, text) {
			return fmt.Errorf("it shows:\n%s", shown)
		}
		return nil
	})
}

// click waits for a button or link with the text and clicks it.
func (p *page) click(text string) {
	p.t.Helper()
	harness.Eventually(p.t, "click "+text, func() error {
		clicked, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(() => {
			const wanted = %q;
			const found = [...document.querySelectorAll("dialog[open] button, dialog[open] a, button, a, label, summary")].find((e) => e.innerText?.trim() === wanted && !e.disabled);
			found?.click();
			return !!found;
		})()`, text)))
		if err == nil && !clicked {
			err = fmt.Errorf("nothing to click in:\n%s", p.text())
		}
		return err
	})
}

// labelled is the selector of the element with the accessible name.
func labelled(name string) chromedp.CSS { return chromedp.CSS(fmt.Sprintf(`[aria-label=%q]`, name)) }

// script runs JavaScript; arguments are quoted into it.
func script(text string, args ...any) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(text, args...))
}

// fill replaces the text of an input, as typing would.
func (p *page) fill(name, value string) {
	p.t.Helper()
	p.run("fill "+name, chromedp.WaitVisible(labelled(name)), script(`(() => {
		const element = document.querySelector(%q);
		element.value = %q;
		element.dispatchEvent(new Event("input", {bubbles: true}));
	})()`, labelled(name), value))
}

// write replaces the text of the YAML editor.
func (p *page) write(text string) {
	p.t.Helper()
	p.run("write YAML", chromedp.WaitVisible(labelled("YAML")), chromedp.Focus(labelled("YAML")),
		chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(kb.Delete), paste(text))
}

// paste inserts text as from the clipboard: typing would indent by itself.
func paste(text string) chromedp.Action[chromedp.Void] {
	return script(`(() => {
		const data = new DataTransfer();
		data.setData("text/plain", %q);
		document.activeElement.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
	})()`, text)
}

// evaluate runs JavaScript.
func evaluate[T any](p *page, expression string) T {
	p.t.Helper()
	result, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return result
}

// size is that of the window, with the color scheme.
func (p *page) size(width, height int64, scheme string) {
	p.t.Helper()
	p.run("set the size", chromedp.EmulateViewport(width, height))
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, media); err != nil {
		p.t.Fatalf("set the color scheme: %v", err)
	}
}

// reload loads the page again.
func reload() chromedp.Action[chromedp.Void] { return chromedp.Reload() }

// clickIn clicks the first element of a selector.
func clickIn(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// gone is nil once an object does not exist.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = errors.New("it exists")
	}
	return err
}
