package admin

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// queryTimeout bounds a request for the status.
const queryTimeout = 5 * time.Second

// send sends a request without a body to the server of the kubeconfig. The caller closes
// the body of the response. The other result is the URL of the server. A timeout of 0
// means none.
func send(ctx context.Context, kubeconfig []byte, method, path string,
	timeout time.Duration) (*http.Response, string, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.Timeout = timeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, config.Host+path, nil)
	if err != nil {
		return nil, "", fmt.Errorf("make the request to %s: %w", config.Host, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", NoAnswer(config.Host, err)
	}
	return response, config.Host, nil
}

// ErrNoAnswer is in errors about a server that does not answer.
var ErrNoAnswer = errors.New("is it running?")

// ErrNoCredentials is in errors about a request that was not sent because the kubeconfig's command for
// credentials failed.
var ErrNoCredentials = errors.New("run it by hand to see why")

// ErrAnotherServer is in errors about a server whose certificate the kubeconfig does not trust.
var ErrAnotherServer = errors.New("get its kubeconfig")

// NoAnswer returns the error of a request to a server that does not answer, without the
// request, which users have not made.
func NoAnswer(host string, err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	if strings.HasPrefix(err.Error(), "getting credentials: ") { // of client-go, for an exec plugin
		return fmt.Errorf("the command of the kubeconfig that makes the credentials fails (%w): %w", err, ErrNoCredentials)
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return fmt.Errorf("the server at %s is not that of the kubeconfig (%w): %w", host, err, ErrAnotherServer)
	}
	return fmt.Errorf("the server at %s does not answer (%w): %w", host, err, ErrNoAnswer)
}

// Refused returns the error of a request whose credentials the server refuses.
func Refused(host string) error {
	return fmt.Errorf("the server at %s refuses the credentials of the kubeconfig: the certificate or token has "+
		"expired, was revoked, or is "+
		"of an authority that is no longer trusted; get a new one with kube-hyper-mini kubeconfig, or kubeconfig "+
		"create for another user", host)
}

// Reachable returns an error if the server of the kubeconfig does not answer.
func Reachable(ctx context.Context, kubeconfig []byte) error {
	response, _, err := send(ctx, kubeconfig, http.MethodGet, "/livez", queryTimeout)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // any answer will do
	return response.Body.Close()
}

// unexpected returns the error of a response with another status or content than the
// expected one. If the body is a Status of the API, the error has its message.
func unexpected(host string, response *http.Response, body []byte) error {
	if response.StatusCode == http.StatusUnauthorized {
		return Refused(host)
	}
	text := strings.TrimSpace(string(body))
	status := metav1.Status{}
	if err := json.Unmarshal(body, &status); err == nil && status.Message != "" {
		text = status.Message
	}
	return fmt.Errorf("the server at %s answers %s: %s", host, response.Status, text)
}

// post sends a POST request to the server of the kubeconfig, and calls read with the response.
// host is the URL of the server.
func post(ctx context.Context, kubeconfig []byte, path string, read func(host string, body io.Reader) error) error {
	response, host, err := send(ctx, kubeconfig, http.MethodPost, path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the error does not matter
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return errors.Join(unexpected(host, response, body), err)
	}
	return read(host, response.Body)
}

// postJSON is post that decodes the response into result.
func postJSON(ctx context.Context, kubeconfig []byte, path string, result any) error {
	return post(ctx, kubeconfig, path, func(host string, body io.Reader) error {
		if err := json.NewDecoder(body).Decode(result); err != nil {
			return fmt.Errorf("read the response of %s: %w", host, err)
		}
		return nil
	})
}

// QueryStatus returns the status of the server of the kubeconfig.
func QueryStatus(ctx context.Context, kubeconfig []byte) (*Status, error) {
	response, host, err := send(ctx, kubeconfig, http.MethodGet, statusPath, queryTimeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // the error does not matter
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the response of %s: %w", host, err)
	}
	status := &Status{}
	if err := json.Unmarshal(body, status); err != nil || status.PID == 0 {
		return nil, unexpected(host, response, body)
	}
	return status, nil
}
