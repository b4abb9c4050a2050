//go:build modules

package main

// The modules whose CRDs the tests apply. They are not part of the program.
import (
	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	_ "github.com/crossplane-contrib/provider-kubernetes/apis/cluster/object/v1alpha2"
	_ "sigs.k8s.io/gateway-api/apis/v1"
)
