package console

import (
	"fmt"
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
	s := harness.Start(t)
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
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		harness.Eventually(t, "the file is removed", func() error {
			if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
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
	s := harness.Start(t)
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
	s := harness.Start(t)
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
	s := harness.Start(t)
	port := fmt.Sprint(harness.FreePort(t))
	c := launch(t, "--data-dir", s.Dir, "--port", port)
	p := open(t, c, "#/objects/core/v1/namespaces")
	p.sees("kube-system")
	c.stop(t)
	launch(t, "--data-dir", s.Dir, "--port", port)
	p.sees("The session of this page has ended")
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
