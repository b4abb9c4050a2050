// The browser command stands in for a user with a browser: it opens the page that
// kubectl's plugin oidc-login names, logs in there, and follows the redirect back to the
// plugin. BROWSER_CA names a file with the authority of the issuer.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"
)

func main() {
	err := errors.New("usage: browser URL")
	if len(os.Args) == 2 {
		err = login(os.Args[1], os.Getenv("BROWSER_CA"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

// login enters the user's name and password on the page at the address.
func login(address, ca string) error {
	data, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return fmt.Errorf("%s has no certificate", ca)
	}
	browser := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	page, err := browser.Get(address)
	if err != nil {
		return err
	}
	_ = page.Body.Close() // its address says all
	form := url.Values{"id": {page.Request.URL.Query().Get("authRequestID")}, "username": {"jane"}, "password": {"password"}}
	answer, err := browser.PostForm(page.Request.URL.ResolveReference(&url.URL{Path: page.Request.URL.Path}).String(), form)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // it is for people
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", answer.Request.URL, answer.Status)
	}
	return nil
}
