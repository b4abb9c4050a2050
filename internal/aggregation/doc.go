// Package aggregation follows the API servers behind remote APIServices.
//
// [Availability] is upstream's controller of their Available condition, over an
// endpoints.Resolver. [Documents] keeps copies of their discovery and OpenAPI
// documents for upstream's code that merges the documents of all servers, so
// that one server that hangs does not block the others. [Caller] makes the
// requests of both, as the front proxy.
package aggregation
