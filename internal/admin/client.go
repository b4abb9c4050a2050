package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// queryTimeout bounds one question to the server.
const queryTimeout = 5 * time.Second

// ask sends a request without a body to the server that the kubeconfig points
// to. The caller closes the answer's body. The other result names the server.
func ask(ctx context.Context, kubeconfig []byte, method, path string, timeout time.Duration) (*http.Response, string, error) {
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
		return nil, "", fmt.Errorf("ask %s: %w", config.Host, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", fmt.Errorf("the server at %s does not answer (%w): is it running?", config.Host, err)
	}
	return response, config.Host, nil
}

// unexpected is the error of an answer that is not what was asked for.
func unexpected(host string, response *http.Response, body []byte) error {
	return fmt.Errorf("the server at %s answers %s: %s", host, response.Status, strings.TrimSpace(string(body)))
}

// QueryStatus asks the server that the kubeconfig points to.
func QueryStatus(ctx context.Context, kubeconfig []byte) (*Status, error) {
	response, host, err := ask(ctx, kubeconfig, http.MethodGet, statusPath, queryTimeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read to the end or given up
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", host, err)
	}
	status := &Status{}
	if err := json.Unmarshal(body, status); err != nil || status.PID == 0 {
		return nil, unexpected(host, response, body)
	}
	return status, nil
}
