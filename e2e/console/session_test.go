package console

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestOpensBrowser: the program that opens the browser gets a file that only its
// user can read; the token is not in its arguments. The file opens a session, and
// is removed then.
func TestOpensBrowser(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	bin, seen := t.TempDir(), filepath.Join(t.TempDir(), "arguments")
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!/bin/sh\necho \"$*\" >"+seen+".part && mv "+seen+".part "+seen+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := launchWith(t, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, "--data-dir", s.Dir)
	var arguments string
	harness.Eventually(t, "the browser is opened", func() error {
		text, err := os.ReadFile(seen)
		arguments = strings.TrimSpace(string(text))
		return err
	})
	path, local := strings.CutPrefix(arguments, "file://")
	if !local || strings.Contains(arguments, c.address[strings.Index(c.address, "=")+1:]) {
		t.Fatalf("the browser's arguments are %q", arguments)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the file has mode %o", mode)
	}
	p := &page{t, browser(t), c.host()}
	p.run("open the file", chromedp.Navigate(arguments))
	p.sees("Overview", "Kubernetes")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		harness.Eventually(t, "the file is removed", func() error {
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
	}
	p.run("reload", reload())
	p.sees("Overview", "Kubernetes")
}

// TestCannotOpenBrowser: where no browser can be opened, the console prints the address
// again, and not what the program has printed that was to open one.
func TestCannotOpenBrowser(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!/bin/sh\necho 'xdg-open: no method available'\necho 'www-browser: not found' >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := launchWith(t, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, "--data-dir", s.Dir)
	harness.Eventually(t, "the console gives the browser up", func() error {
		if !strings.Contains(c.log(t), "cannot open a browser (exit status 3): open "+c.address) {
			return fmt.Errorf("it says %q", c.log(t))
		}
		return nil
	})
	if log := c.log(t); strings.Contains(log, "www-browser") || strings.Contains(log, "xdg-open") {
		t.Errorf("the program's output is in\n%s", log)
	}
}

// TestUsedAddress: a used address is refused, and the terminal shows the next one.
func TestUsedAddress(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	c := launch(t, "--data-dir", s.Dir)
	p := open(t, c, "")
	p.sees("Overview")
	second := &page{t, browser(t), c.host()}
	second.run("open the used address", chromedp.Navigate(c.address))
	second.sees("This address has been used or has expired")
	log := c.log(t)
	second.run("open the new address", chromedp.Navigate(strings.TrimSpace(log[strings.LastIndex(log, "http://"):])+"#/types"))
	second.sees("Types", "Namespace")
	second.run("open a second page", chromedp.Navigate(c.host()+"/#/access"))
	second.sees("Who may")
	p.run("reload", reload())
	p.sees("Overview")
}

// TestExpiredSession: the page of an earlier console shows the remedy.
func TestExpiredSession(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	port := fmt.Sprint(harness.FreePort(t))
	c := launch(t, "--data-dir", s.Dir, "--port", port)
	p := open(t, c, "#/objects/core/v1/namespaces")
	p.sees("kube-system")
	c.stop(t)
	launch(t, "--data-dir", s.Dir, "--port", port)
	p.sees("The session of this page has ended")
}

// TestPortOfAnotherUser: a server that was on the port before, of another user perhaps,
// has left a service worker in the browser, which gets nothing of the console's session.
func TestPortOfAnotherUser(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `onactivate = (event) => event.waitUntil(clients.claim());
				onfetch = (event) => event.respondWith(new Response("taken: " + event.request.url));`)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<script>navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then(() => { document.body.textContent = "the worker waits"; });</script><body></body>`)
	}))
	_, port, err := net.SplitHostPort(other.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t, browser(t), ""}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		p.run("open the other server", chromedp.Navigate("http://"+host+":"+port))
		p.sees("the worker waits")
	}
	other.Close()
	p.run("leave it", chromedp.Navigate("about:blank"))
	c := launch(t, "--data-dir", s.Dir, "--port", port)
	p.run("open the console", chromedp.Navigate(c.address))
	p.sees("Overview", "Kubernetes")
	p.run("open the name that others know", chromedp.Navigate("http://localhost:"+port+"/"))
	p.sees("taken: ") // the worker is there
}

// TestAnotherServer: the page names the remedy when a new server has the address of
// the one that it shows.
func TestAnotherServer(t *testing.T) {
	t.Parallel()
	port := fmt.Sprint(harness.FreePort(t))
	s := harness.Start(t, "--port", port)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/objects/core/v1/namespaces")
	p.sees("kube-system")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with %d", code)
	}
	harness.Start(t, "--port", port)
	p.sees("Another server answers at the address of the API server", "start it again")
	p.lacks("does not answer")
}

// TestTextIsKept: a text that is not applied survives a link to another page, a restart
// of the server and the end of the session, but not that it is dropped.
func TestTextIsKept(t *testing.T) {
	t.Parallel()
	port, consolePort := fmt.Sprint(harness.FreePort(t)), fmt.Sprint(harness.FreePort(t))
	s := harness.Start(t, "--port", port)
	c := launch(t, "--data-dir", s.Dir, "--port", consolePort)
	p := open(t, c, "#/new/core/v1/configmaps?ns=default")
	written := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: default}\ndata: {begun: earlier}\n"
	p.write(written)
	p.sees("begun: earlier")
	p.click("Types")
	p.sees("Namespace")
	p.visit("#/new/core/v1/configmaps?ns=default")
	p.sees("This text is from before and is not applied.", "begun: earlier")
	p.click("Begin with the current version")
	p.lacks("begun: earlier")
	p.write(written)
	p.click("Cancel")
	p.sees("kube-root-ca.crt")
	p.visit("#/new/core/v1/configmaps?ns=default")
	p.sees("kind: ConfigMap")
	p.lacks("begun: earlier")

	p.write(written)
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with %d", code)
	}
	p.click("Review")
	p.sees("The API server does not answer", "begun: earlier")
	s = harness.StartIn(t, s.Dir, "--port", port)
	p.lacks("The API server does not answer")
	p.sees("begun: earlier")
	p.click("Review")
	p.sees("dry run")
	p.click("Create")
	p.sees("mine", "Metadata")

	p.visit("#/edit/core/v1/configmaps/default/mine")
	p.write(strings.Replace(written, "earlier", "later", 1))
	c.stop(t)
	launch(t, "--data-dir", s.Dir, "--port", consolePort)
	p.click("Review")
	p.sees("The session of this page has ended. Copy your text", "begun: later")
}
