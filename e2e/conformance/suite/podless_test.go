package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// controlPlanePods is what upstream lists to find the components whose metrics
// it may read.
const controlPlanePods = "/api/v1/namespaces/kube-system/pods"

// withoutPods serves the API that config leads to, with one difference: where
// pods are no resource, the list of control plane pods is empty. That is what
// a kube-apiserver without nodes answers, and upstream's check of invariant
// metrics, which only needs the API server's, gives up on anything else.
func withoutPods(config *rest.Config) (*httptest.Server, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("find the server's address: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a transport to the server: %w", err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	proxy.Transport = transport
	proxy.ModifyResponse = func(response *http.Response) error {
		if response.StatusCode != http.StatusNotFound || response.Request.URL.Path != controlPlanePods {
			return nil
		}
		body, err := json.Marshal(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}})
		if err != nil {
			return err
		}
		err = response.Body.Close()
		response.StatusCode, response.Status = http.StatusOK, "200 OK"
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		response.Header = http.Header{"Content-Type": {"application/json"}}
		return err
	}
	return httptest.NewServer(proxy), nil
}

// writeKubeconfig writes a kubeconfig for a server without authentication.
func writeKubeconfig(dir, server string) (string, error) {
	const name = "without-pods"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	config.CurrentContext = name
	path := filepath.Join(dir, "kubeconfig")
	return path, errors.Join(os.MkdirAll(dir, 0o700), clientcmd.WriteToFile(*config, path))
}
