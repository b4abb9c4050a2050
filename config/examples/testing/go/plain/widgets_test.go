// Package plain tests with the standard library and client-go. All tests share one
// server; each has a namespace of its own, so that they can run in parallel.
package plain

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var config *rest.Config // of the administrator

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runTests runs the tests while the server runs. The server ends when its standard
// input does, and so with this process, however this process ends.
func runTests(m *testing.M) (code int, err error) {
	server := exec.Command("kube-hyper-mini", "run", "--until-eof", "--crds", "../../../widgets.yaml")
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		return 0, err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stdin.Close(), server.Wait()) }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the server did not start: %w", err)
	}
	kubeconfig := strings.Trim(strings.TrimPrefix(strings.TrimSpace(line), "export KUBECONFIG="), "'") // quoted if it has spaces
	if config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// namespace makes a namespace for one test, and deletes it with its content.
func namespace(t *testing.T) string {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces()
	made, err := client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return made.Name
}

func widget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
	}}
}

func TestWidgets(t *testing.T) {
	for name, test := range map[string]struct {
		size int64
		ok   bool
	}{"small": {3, true}, "large": {12, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace(namespace(t))
			_, err := client.Create(t.Context(), widget("one", test.size), metav1.CreateOptions{})
			if (err == nil) != test.ok {
				t.Errorf("size %d: %v", test.size, err)
			}
			list, err := client.List(t.Context(), metav1.ListOptions{})
			if err != nil || (len(list.Items) == 1) != test.ok {
				t.Errorf("size %d: %d widgets, %v", test.size, len(list.Items), err)
			}
		})
	}
}
