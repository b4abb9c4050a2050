package kube

import (
	"fmt"
	"reflect"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// Upstream fact: paths keep what only a message and another router need
//
// Mirrors: k8s.io/apiserver/pkg/server/mux.PathRecorderMux.trackCallers
//   k8s.io/apiserver/pkg/server.NewAPIServerHandler
//   github.com/emicklei/go-restful/v3.CurlyRouter.SelectRoute
//   github.com/emicklei/go-restful/v3.newPathExpression
// Why: the mux keeps the stack of each registration, for the message about a second one, and
//   each route a regular expression of its path, which the router of Kubernetes does not use.
// Gain: 2.4 MB of live heap of each server, of 15 MB of a further one in a process (bench,
//   library; trial).
// Breaks: a start fails (DropRouteLeftovers), or requests panic. Tests: TestTour.

// DropRouteLeftovers drops that of servers which do not serve yet.
func DropRouteLeftovers(servers ...*genericapiserver.GenericAPIServer) error {
	for _, server := range servers {
		stacks, err := fieldOf(reflect.ValueOf(server.Handler.NonGoRestfulMux), "pathStacks")
		if err != nil {
			return err
		}
		stacks.Clear()
		for _, service := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
			for _, route := range service.Routes() {
				expression, err := fieldOf(reflect.ValueOf(&route), "pathExpr")
				if err != nil {
					return err
				}
				matcher, err := fieldOf(expression, "Matcher")
				if err != nil {
					return err
				}
				matcher.SetZero()
			}
		}
	}
	return nil
}

// fieldOf returns a field, exported or not, of the struct that the pointer points to.
func fieldOf(pointer reflect.Value, name string) (reflect.Value, error) {
	field := pointer.Elem().FieldByName(name)
	if !field.IsValid() {
		return field, fmt.Errorf("find the field %s of %s: this build mixes versions of Kubernetes; build it with the "+
			"versions in its go.mod", name, pointer.Type())
	}
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem(), nil
}
