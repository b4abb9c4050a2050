package e2e

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// spans collects the names of the spans that arrive, by service.
type spans struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	names map[string][]string
}

// Export implements collector.TraceServiceServer.
func (s *spans) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		service := ""
		for _, attribute := range resource.Resource.Attributes {
			if attribute.Key == "service.name" {
				service = attribute.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.names[service] = append(s.names[service], span.Name)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// of returns the names for a service so far.
func (s *spans) of(service string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.names[service]...)
}

// traced is the configuration of a server that traces all to the address.
func traced(t *testing.T, address string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	content := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: 1000000\n", address)
	harness.WriteFile(t, file, content)
	return harness.ConfigFile(t, "apiServer: {tracing: {configFile: "+file+"}}")
}

// TestTracing: requests arrive at the collector as spans, the last ones at the
// stop.
func TestTracing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	collected, server, ended := &spans{names: map[string][]string{}}, grpc.NewServer(), make(chan error, 1)
	collector.RegisterTraceServiceServer(server, collected)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s := harness.Start(t, "--config", traced(t, listener.Addr().String()))
	s.Kubectl("", "create", "configmap", "traced")
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	harness.Contains(t, strings.Join(collected.of("apiserver"), "\n"), "Create\n", "Create etcd3\n")
}

// TestTracingWithoutACollector: the server works and ends all the same, and
// does not fill the log.
func TestTracingWithoutACollector(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", traced(t, harness.FreeAddress(t)))
	s.Kubectl("", "create", "configmap", "traced")
	s.WaitLog("traces are not delivered")
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	if said := strings.Count(s.Log(), "traces are not delivered"); said != 1 || harness.Errors(s.Log()) != "" {
		t.Errorf("the log speaks of it %d times, or of errors:\n%s", said, s.Log())
	}
}
