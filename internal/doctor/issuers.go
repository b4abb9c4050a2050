package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/issuers"
)

// issuers returns the OpenID Connect issuers that the configuration trusts.
func (c *Config) issuers() ([]apiserverv1.Issuer, error) {
	var list []apiserverv1.Issuer
	if c.OIDCIssuer != "" {
		issuer := apiserverv1.Issuer{URL: c.OIDCIssuer}
		if c.OIDCAuthority != "" {
			data, err := os.ReadFile(c.OIDCAuthority)
			if err != nil {
				return nil, fmt.Errorf("read apiServer.flags.oidc-ca-file: %w", err)
			}
			issuer.CertificateAuthority = string(data)
		}
		list = append(list, issuer)
	}
	configured, err := issuers.Read(c.Authentication)
	return append(list, configured...), err
}

// errIssuer is the error of an issuer that has another name than in the configuration.
var errIssuer = errors.New("another issuer than that of the url")

// unreachableIssuers reports issuers whose keys a server on this machine cannot fetch.
func unreachableIssuers(ctx context.Context, list []apiserverv1.Issuer, add func(Finding)) error {
	for _, issuer := range list {
		err := fetchKeys(ctx, issuer)
		if err == nil {
			continue
		}
		f := Finding{
			Severity: Failure, Object: "issuer " + issuer.URL, Problem: "the server cannot fetch the keys that verify its tokens: " + shortened(err.Error()),
			Remedy: "start the issuer, or correct its url in the authentication configuration; check DNS and the firewalls between it and this machine",
		}
		switch {
		case errors.As(err, new(x509.UnknownAuthorityError)):
			f.Remedy = "write the authority that signs the serving certificate of the issuer to its certificateAuthority (flag oidc-ca-file)"
		case errors.As(err, new(x509.HostnameError)), errors.As(err, new(x509.CertificateInvalidError)):
			f.Remedy = "replace the serving certificate of the issuer, or correct its url in the authentication configuration"
		case errors.Is(err, errIssuer):
			f.Remedy = "write the url exactly as in the claim iss of the tokens"
		}
		add(f)
	}
	return ctx.Err()
}

// maxProblem bounds the length of an error with texts of an issuer, in bytes.
const maxProblem = 1000

func shortened(text string) string {
	if len(text) > maxProblem {
		return strings.ToValidUTF8(text[:maxProblem], "") + "..."
	}
	return text
}

// fetchKeys requests the discovery document and the keys, as the server does.
func fetchKeys(ctx context.Context, issuer apiserverv1.Issuer) error {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	if issuer.CertificateAuthority != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(issuer.CertificateAuthority)) {
			return errors.New("certificateAuthority has no certificate in PEM")
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	client := &http.Client{Transport: transport, Timeout: requestTimeout}
	url := strings.TrimSuffix(issuer.URL, "/") + "/.well-known/openid-configuration"
	if issuer.DiscoveryURL != nil && *issuer.DiscoveryURL != "" {
		url = *issuer.DiscoveryURL
	}
	var discovery struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := fetchJSON(ctx, client, url, &discovery); err != nil {
		return err
	}
	if discovery.Issuer != issuer.URL {
		return fmt.Errorf("%s is of %w: %s", url, errIssuer, issuers.Quoted(discovery.Issuer))
	}
	if discovery.Keys == "" {
		return fmt.Errorf("%s has no jwks_uri", url)
	}
	return fetchJSON(ctx, client, discovery.Keys, &struct{}{})
}

// maxDocument bounds the documents of an issuer, in bytes.
const maxDocument = 1 << 20

func fetchJSON(ctx context.Context, client *http.Client, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("request a document of the issuer: %w", err) // it names the URL, quoted
	}
	response, err := client.Do(request)
	if err != nil {
		return err // it names the URL
	}
	defer func() { _ = response.Body.Close() }() // it was read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d %s", url, response.StatusCode, http.StatusText(response.StatusCode)) // the status line may have any text
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxDocument)).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	return nil
}
