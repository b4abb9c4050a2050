// Package openapi adds custom resources to the OpenAPI documents of the other
// API types. A document is built when it is requested, from the
// CustomResourceDefinitions of that document, and is kept compressed while it
// is in use, so that a definition without readers costs nothing here.
//
// It replaces the two controllers of
// k8s.io/apiextensions-apiserver/pkg/controller/{openapi,openapiv3}, which build
// and hold all documents.
package openapi
