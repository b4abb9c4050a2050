// Command function is a composition function of Crossplane. It composes a config map and a
// NopResource for a composite resource, as a process:
//
//	function --listen 127.0.0.1:9444 --certificates DIRECTORY
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	function "github.com/crossplane/function-sdk-go"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	"github.com/crossplane/function-sdk-go/resource"
	"github.com/crossplane/function-sdk-go/response"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9444", "the address to serve at")
	certificates := flag.String("certificates", "", "the directory with tls.crt, tls.key and ca.crt")
	flag.Parse()
	if err := function.Serve(&composer{}, function.Listen("tcp", *listen), function.MTLSCertificates(*certificates), function.WithMetricsServer("")); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// composer implements fnv1.FunctionRunnerServiceServer.
type composer struct {
	fnv1.UnimplementedFunctionRunnerServiceServer
}

// RunFunction returns the composed resources. An error is a fatal result.
func (c *composer) RunFunction(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	rsp := response.To(req, time.Minute)
	if err := compose(req, rsp); err != nil {
		response.Fatal(rsp, err)
	}
	return rsp, nil
}

func compose(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) error {
	composite, err := request.GetObservedCompositeResource(req)
	if err != nil {
		return err
	}
	size, err := composite.Resource.GetInteger("spec.size")
	if err != nil {
		return err
	}
	observed, err := request.GetObservedComposedResources(req)
	if err != nil {
		return err
	}
	desired := map[resource.Name]*resource.DesiredComposed{
		"settings": made("v1", "ConfigMap", map[string]any{"data": map[string]any{"size": fmt.Sprint(size)}}),
		"nothing": made("nop.crossplane.io/v1alpha1", "NopResource", map[string]any{"spec": map[string]any{"forProvider": map[string]any{
			"conditionAfter": []any{map[string]any{"time": "1s", "conditionType": "Ready", "conditionStatus": "True"}},
		}}}),
	}
	if _, exists := observed["settings"]; exists {
		desired["settings"].Ready = resource.ReadyTrue
	}
	if nothing, exists := observed["nothing"]; exists && nothing.Resource.GetCondition("Ready").Status == "True" {
		desired["nothing"].Ready = resource.ReadyTrue
	}
	return response.SetDesiredComposedResources(rsp, desired)
}

// made is a composed resource with the content.
func made(version, kind string, content map[string]any) *resource.DesiredComposed {
	composed := resource.NewDesiredComposed()
	composed.Resource.Object = content
	composed.Resource.SetAPIVersion(version)
	composed.Resource.SetKind(kind)
	return composed
}
