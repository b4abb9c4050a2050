package aggregation

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
	"k8s.io/apiserver/pkg/authentication/user"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

var errSlow = errors.New("no answer")

// Reasons of the Available condition besides those of Kubernetes, which has
// FailedDiscoveryCheck for them.
const (
	reasonConnect = "FailedConnection"      // no target accepts a connection
	reasonTLS     = "FailedTLSVerification" // the certificate does not match caBundle or name
)

// check requests the discovery document of the group version from the server.
func (a *Availability) check(ctx context.Context,
	service *apiregistrationv1.APIService) apiregistrationv1.APIServiceCondition {
	err := a.tryDiscovery(ctx, service)
	if err == nil {
		return kube.PassedCondition()
	}
	return apiregistrationv1.APIServiceCondition{Status: apiregistrationv1.ConditionFalse,
		Reason: reason(err), Message: err.Error()}
}

// tryDiscovery requests the document, and a second time on a new connection if the first
// one may have failed because of the connection.
func (a *Availability) tryDiscovery(ctx context.Context, service *apiregistrationv1.APIService) error {
	client, err := a.config.Caller.client(service)
	if err != nil {
		return err
	}
	client.Timeout = kube.CheckTimeout
	err = a.discover(ctx, client, service)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The connection may lead to a replica that has ended. Upstream sends five
	// requests, so that one of them gets another connection.
	utilnet.CloseIdleConnectionsFor(client.Transport)
	var unreachable *endpoints.ConnectError
	var unresolved *endpoints.UnresolvedError
	if errors.As(err, &unreachable) || errors.As(err, &unresolved) || errors.Is(err, errSlow) || reason(err) == reasonTLS {
		return err // not because of an old connection, or after a long wait
	}
	return a.discover(ctx, client, service)
}

// discover sends one request.
func (a *Availability) discover(ctx context.Context, client *http.Client, service *apiregistrationv1.APIService) error {
	path, ref := kube.DiscoveryPath(service), reference(service)
	request, err := a.config.Caller.request(ctx, service, path, kube.DiscoveryUser, user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return describe(kube.CheckTimeout, ref, path, err)
	}
	_ = response.Body.Close() // only the status counts
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("service %s answers %s with %s", ref, path, response.Status)
	}
	return nil
}

// describe describes the error without the host of the resolver, which is internal, and
// without the local port, which changes each time: a condition must not change if
// nothing has changed. within is the timeout of the request.
func describe(within time.Duration, ref endpoints.Reference, path string, err error) error {
	var unresolved *endpoints.UnresolvedError
	if errors.As(err, &unresolved) {
		return unresolved
	}
	var unreachable *endpoints.ConnectError
	if errors.As(err, &unreachable) {
		return unreachable
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("request %s of service %s: %w within %s", path, ref, errSlow, within)
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // the URL is above
	}
	return fmt.Errorf("request %s of service %s: %w", path, ref, endpoints.WithoutSource(err))
}

// reason classifies what a check failed with.
func reason(err error) string {
	var (
		unresolved  *endpoints.UnresolvedError
		unreachable *endpoints.ConnectError
		certificate *tls.CertificateVerificationError
		invalid     x509.CertificateInvalidError
		hostname    x509.HostnameError
		authority   x509.UnknownAuthorityError
		alert       tls.AlertError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unresolved):
		return kube.ReasonNotFound
	case errors.As(err, &unreachable):
		return reasonConnect
	case errors.As(err, &certificate), errors.As(err, &invalid), errors.As(err, &hostname), errors.As(err, &authority),
		errors.As(err, &alert), errors.As(err, &record):
		return reasonTLS
	}
	return kube.ReasonDiscovery
}
