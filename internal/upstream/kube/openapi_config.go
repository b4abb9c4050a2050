package kube

import (
	"errors"
	"fmt"
	"reflect"

	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-openapi/pkg/common"
)

// Upstream fact: the aggregator reads its OpenAPI configuration twice
//
// Mirrors: k8s.io/kube-aggregator/pkg/apiserver.completedConfig.NewWithDelegate
//   k8s.io/kube-aggregator/pkg/apiserver.APIAggregator.PrepareRun
//   k8s.io/kube-aggregator/pkg/apiserver.APIAggregator
//   k8s.io/apiserver/pkg/server.completedConfig.New
//   k8s.io/apiserver/pkg/server.GenericAPIServer
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.specAggregator.UpdateAPIServiceSpec
//   k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator.specProxier.UpdateAPIServiceSpec
// Why: its generic server needs the configuration. Its OpenAPI controllers take
//   it too, and send requests to remote servers while they hold locks that block all
//   requests for OpenAPI. Between the two, a method of the delegate is called for its
//   signals, and the configuration is removed there.
// Gain: with an aggregated server that does not answer, the slowest request for
//   OpenAPI takes 0.01 s instead of 60 s (bench, silent-remote).
// Breaks: the OpenAPI controllers run, or managed fields of APIServices are
//   deduced without schemas. CheckOpenAPITaken fails the start. Tests: TestTour.

// OpenAPIConfigs are what both versions of OpenAPI are built with.
type OpenAPIConfigs struct {
	V2 *common.Config
	V3 *common.OpenAPIV3Config
}

// TakeOpenAPI prepares the aggregator's configuration and delegate so that the
// aggregator comes without OpenAPI controllers, and returns the delegate to use
// and the configuration. [CheckOpenAPITaken] reports whether it worked.
func TakeOpenAPI(config *aggregatorapiserver.Config, delegate genericapiserver.DelegationTarget) (genericapiserver.DelegationTarget, OpenAPIConfigs) {
	taken := OpenAPIConfigs{V2: config.GenericConfig.OpenAPIConfig, V3: config.GenericConfig.OpenAPIV3Config}
	return &openAPITaker{DelegationTarget: delegate, take: func() {
		config.GenericConfig.OpenAPIConfig, config.GenericConfig.OpenAPIV3Config = nil, nil
	}}, taken
}

type openAPITaker struct {
	genericapiserver.DelegationTarget
	take func()
}

// MuxAndDiscoveryCompleteSignals implements [genericapiserver.DelegationTarget].
func (t *openAPITaker) MuxAndDiscoveryCompleteSignals() map[string]<-chan struct{} {
	t.take()
	return t.DelegationTarget.MuxAndDiscoveryCompleteSignals()
}

// CheckOpenAPITaken fails unless the aggregator has no OpenAPI configuration and
// its generic server has one.
func CheckOpenAPITaken(aggregator *aggregatorapiserver.APIAggregator) error {
	var errs []error
	for _, field := range []struct {
		owner any
		name  string
		set   bool
	}{
		{aggregator, "openAPIConfig", false},
		{aggregator, "openAPIV3Config", false},
		{aggregator.GenericAPIServer, "openAPIConfig", true},
		{aggregator.GenericAPIServer, "openAPIV3Config", true},
	} {
		value := reflect.ValueOf(field.owner).Elem().FieldByName(field.name)
		if !value.IsValid() || value.Kind() != reflect.Pointer || value.IsNil() == field.set {
			errs = append(errs, fmt.Errorf("%T.%s is not as expected", field.owner, field.name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take OpenAPI from the aggregator: %w: this build mixes versions of Kubernetes; build it with the versions in its go.mod", err)
	}
	return nil
}
