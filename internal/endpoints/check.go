package endpoints

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
)

// checkTimeout is upstream's bound for a discovery check.
const checkTimeout = 5 * time.Second

var errSlow = fmt.Errorf("no answer within %s", checkTimeout)

// Reasons of the Available condition. ServiceNotFound, FailedDiscoveryCheck
// and Passed are upstream's; upstream has FailedDiscoveryCheck for the others
// too.
const (
	reasonNotFound  = "ServiceNotFound"       // the reference does not resolve
	reasonConnect   = "FailedConnection"      // no target accepts a connection
	reasonTLS       = "FailedTLSVerification" // not the server that caBundle and name ask for
	reasonDiscovery = "FailedDiscoveryCheck"  // the server does not answer as it must
	reasonPassed    = "Passed"
)

// check asks the server for the discovery document of its group version.
func (a *Availability) check(ctx context.Context, service *apiregistrationv1.APIService) apiregistrationv1.APIServiceCondition {
	err := a.ask(ctx, service)
	if err == nil {
		return apiregistrationv1.APIServiceCondition{Status: apiregistrationv1.ConditionTrue, Reason: reasonPassed, Message: "all checks passed"}
	}
	return apiregistrationv1.APIServiceCondition{Status: apiregistrationv1.ConditionFalse, Reason: reason(err), Message: err.Error()}
}

func (a *Availability) ask(ctx context.Context, service *apiregistrationv1.APIService) error {
	certificate, key, err := a.config.Identity()
	if err != nil {
		return fmt.Errorf("read the front-proxy certificate: %w", err)
	}
	roundTripper, err := transport.New(remote.BuildTransportConfig(a.dial, certificate, key, service))
	if err != nil {
		return fmt.Errorf("prepare TLS with the caBundle of APIService %s: %w", service.Name, err)
	}
	client := &http.Client{
		Transport: roundTripper, Timeout: checkTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	err = a.discover(ctx, client, service)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The connection may be one to a replica that has gone. Upstream asks five
	// times; what differs from one time to the next is the connection.
	utilnet.CloseIdleConnectionsFor(roundTripper)
	var unreachable *ConnectError
	var unknown *UnresolvedError
	if errors.As(err, &unreachable) || errors.As(err, &unknown) || errors.Is(err, errSlow) || reason(err) == reasonTLS {
		return err // that was a new one, or has taken long enough
	}
	return a.discover(ctx, client, service)
}

func (a *Availability) discover(ctx context.Context, client *http.Client, service *apiregistrationv1.APIService) error {
	backend := service.Spec.Service
	location, err := a.config.Resolver.Aggregator().ResolveEndpoint(backend.Namespace, backend.Name, *backend.Port)
	if err != nil {
		return err
	}
	location.Path = "/apis/" + service.Spec.Group + "/" + service.Spec.Version
	if service.Spec.Group == "" {
		location.Path = "/api/" + service.Spec.Version
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return err
	}
	// Upstream's identity for the check, which is allowed everything.
	transport.SetAuthProxyHeaders(request, "system:kube-aggregator", "", []string{"system:masters"}, nil)
	ref := Reference{backend.Namespace, backend.Name}
	response, err := client.Do(request)
	if err != nil {
		return describe(ref, location.Path, err)
	}
	_ = response.Body.Close() // only the status counts
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("service %s answers %s with %s", ref, location.Path, response.Status)
	}
	return nil
}

// describe says what went wrong without the host that only the resolver
// understands, and without ports that change each time: a condition must not
// change when nothing has.
func describe(ref Reference, path string, err error) error {
	var unknown *UnresolvedError
	if errors.As(err, &unknown) {
		return unknown
	}
	var unreachable *ConnectError
	if errors.As(err, &unreachable) {
		return unreachable
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("service %s, asked for %s: %w", ref, path, errSlow)
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // the URL is above
	}
	return fmt.Errorf("ask service %s for %s: %w", ref, path, withoutSource(err))
}

// reason classifies what a check failed with.
func reason(err error) string {
	var (
		unknown     *UnresolvedError
		unreachable *ConnectError
		certificate *tls.CertificateVerificationError
		invalid     x509.CertificateInvalidError
		hostname    x509.HostnameError
		authority   x509.UnknownAuthorityError
		alert       tls.AlertError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return reasonNotFound
	case errors.As(err, &unreachable):
		return reasonConnect
	case errors.As(err, &certificate), errors.As(err, &invalid), errors.As(err, &hostname), errors.As(err, &authority),
		errors.As(err, &alert), errors.As(err, &record):
		return reasonTLS
	}
	return reasonDiscovery
}
