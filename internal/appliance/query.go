package appliance

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

// QueryStatus asks the server that the kubeconfig points to.
func QueryStatus(ctx context.Context, kubeconfig []byte) (*Status, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.Timeout = queryTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+statusPath, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", config.Host, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the server at %s does not answer (%w): is it running?", config.Host, err)
	}
	defer func() { _ = response.Body.Close() }() // read to the end or given up
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", config.Host, err)
	}
	status := &Status{}
	if err := json.Unmarshal(body, status); err != nil || status.PID == 0 {
		return nil, fmt.Errorf("the server at %s answers %s: %s", config.Host, response.Status, strings.TrimSpace(string(body)))
	}
	return status, nil
}
