// The login command stands in for kubectl's plugin oidc-login, which the module proxy does
// not have, and for the user's browser: it takes the plugin's flags, logs in on the pages
// of the issuer of these tests, and prints the credentials for kubectl.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/client"
	"golang.org/x/oauth2"
)

const redirect = "http://localhost:8000"

func main() {
	issuer, id := flag.String("oidc-issuer-url", "", ""), flag.String("oidc-client-id", "", "")
	ca := flag.String("certificate-authority", "", "")
	user, password := flag.String("username", "", ""), flag.String("password", "", "")
	scopes := []string{"openid"}
	flag.Func("oidc-extra-scope", "", func(scope string) error { scopes = append(scopes, scope); return nil })
	if len(os.Args) < 2 || os.Args[1] != "get-token" {
		fmt.Fprintln(os.Stderr, "usage: login get-token FLAGS")
		os.Exit(2)
	}
	_ = flag.CommandLine.Parse(os.Args[2:]) // it exits on errors
	browser, err := newBrowser(*ca)
	if err == nil {
		err = login(context.Background(), browser, *issuer, &oauth2.Config{ClientID: *id, RedirectURL: redirect, Scopes: scopes}, *user, *password)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "login:", err)
		os.Exit(1)
	}
}

// newBrowser returns a client that stops at the redirect to the plugin.
func newBrowser(ca string) (*http.Client, error) {
	data, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate", ca)
	}
	return &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		CheckRedirect: func(request *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(request.URL.String(), redirect) {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}, nil
}

// login is the authorization code flow with PKCE.
func login(ctx context.Context, browser *http.Client, issuer string, config *oauth2.Config, user, password string) error {
	discovery, err := client.Discover(ctx, issuer, browser)
	if err != nil {
		return err
	}
	config.Endpoint = oauth2.Endpoint{AuthURL: discovery.AuthorizationEndpoint, TokenURL: discovery.TokenEndpoint, AuthStyle: oauth2.AuthStyleInParams}
	verifier := oauth2.GenerateVerifier()
	page, err := browser.Get(config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)))
	if err != nil {
		return err
	}
	_ = page.Body.Close() // its address says all
	form := url.Values{"id": {page.Request.URL.Query().Get("authRequestID")}, "username": {user}, "password": {password}}
	answer, err := browser.PostForm(page.Request.URL.ResolveReference(&url.URL{Path: page.Request.URL.Path}).String(), form)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // see above
	back, err := answer.Location()
	if err != nil {
		return fmt.Errorf("the issuer answers %s: %w", answer.Status, err)
	}
	token, err := config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, browser), back.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		return err
	}
	idToken, ok := token.Extra("id_token").(string)
	if !ok {
		return errors.New("the issuer gives no ID token")
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": map[string]any{"token": idToken},
	})
}
