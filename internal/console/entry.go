package console

import (
	"fmt"
	"html/template"
	"net/http"
	"os"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// enterScriptPath is the script of the page that begins a session.
const enterScriptPath = "/enter.js"

// writeEntry writes the page that begins a session: its script stores the key, if there
// is a new one, and goes to the application. After a redirect from another site, the
// browser would not send the cookie.
func writeEntry(w http.ResponseWriter, key string) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; base-uri 'none'; form-action "+
		"'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, `<!doctype html><meta charset="utf-8"><meta name="key" content="%s">
<title>kube-hyper-mini</title><script src="%s"></script><noscript>The console needs JavaScript.</noscript>`,
		attribute(key), enterScriptPath)
}

func enterScript(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = fmt.Fprint(w, `const key = document.querySelector("meta[name=key]").content;
if (key) localStorage.setItem("key", key);
location.replace(location.pathname.replace(/^\/session$/, "/") + location.hash);
`)
}

// openingPage posts the token. Other users of the machine can read the arguments
// of the browser, but not this file.
var openingPage = template.Must(template.New("open").Parse(`<!doctype html>
<meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>kube-hyper-mini</title>
<form method="post" action="{{.Address}}"><input type="hidden" name="token" value="{{.Token}}">
<button>Open the console</button></form>
<script>document.forms[0].submit()</script>
`))

// newOpening writes a file that opens the console in a browser. Only its user can read it.
func newOpening(host, token string) (path string, err error) {
	path, err = datadir.WriteTemporary("", "kube-hyper-mini-console-*.html", func(file *os.File) error {
		return openingPage.Execute(file, struct{ Address, Token string }{"http://" + host + sessionPath, token})
	})
	if err != nil {
		return "", fmt.Errorf("write the file that opens the browser: %w", err)
	}
	return path, nil
}
