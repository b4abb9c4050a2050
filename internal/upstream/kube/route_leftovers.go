package kube

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sync"

	"github.com/emicklei/go-restful/v3"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// Upstream fact: registered paths keep stacks, regular expressions and descriptions that are not used
//
// Mirrors: k8s.io/apiserver/pkg/server/mux.PathRecorderMux.trackCallers
//   k8s.io/apiserver/pkg/server.NewAPIServerHandler
//   github.com/emicklei/go-restful/v3.CurlyRouter.SelectRoute
//   github.com/emicklei/go-restful/v3.newPathExpression
//   github.com/emicklei/go-restful/v3.Parameter
//   github.com/emicklei/go-restful/v3.ResponseError
//   github.com/emicklei/go-restful/v3.WebService
// Why: the mux keeps the stack of each registration, for the message about a second one, and
//   each route a regular expression of its path, which the router of Kubernetes does not use.
//   Each route has its own description of parameters and responses that many have.
// Gain: 3.3 MB of live heap of each server, of 12 MB of a further one in a process (bench,
//   library; trial).
// Breaks: a start fails (DropRouteLeftovers), or requests panic. Tests: TestReadme.

// DropRouteLeftovers drops the registration stacks and path expressions of servers that do not serve
// yet, and lets their routes share equal descriptions.
func DropRouteLeftovers(servers ...*genericapiserver.GenericAPIServer) error {
	for _, server := range servers {
		stacks, err := upstream.Field[map[string]string](server.Handler.NonGoRestfulMux, "pathStacks")
		if err != nil {
			return err
		}
		clear(*stacks)
		for _, service := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
			if err := dropExpression(service); err != nil {
				return err
			}
			routes, err := upstream.Field[[]restful.Route](service, "routes")
			if err != nil {
				return err
			}
			for i := range *routes {
				route := &(*routes)[i]
				if err := dropExpression(route); err != nil {
					return err
				}
				shareParameters(route.ParameterDocs)
				shareResponses(route)
			}
		}
	}
	return nil
}

// dropExpression drops the regular expression of a service or of a route.
func dropExpression(owner any) error {
	expression, err := upstream.Field[*regexp.Regexp](owner, "pathExpr", "Matcher")
	if expression != nil {
		*expression = nil
	}
	return err
}

// parameters are the documented parameters of the routes of all servers.
var parameters sync.Map // the data, of parameters with these fields only -> *restful.Parameter

// shareParameters replaces parameters by equal ones of the process.
func shareParameters(documented []*restful.Parameter) {
	for i, parameter := range documented {
		data := parameter.Data()
		key := struct {
			name, description, dataType, format string
			kind                                int
			required, multiple                  bool
		}{data.Name, data.Description, data.DataType, data.CollectionFormat, data.Kind, data.Required, data.AllowMultiple}
		data.Name, data.Description, data.DataType, data.CollectionFormat, data.Kind = "", "", "", "", 0
		data.Required, data.AllowMultiple = false, false
		if reflect.ValueOf(data).IsZero() {
			shared, _ := parameters.LoadOrStore(key, parameter)
			documented[i] = shared.(*restful.Parameter)
		}
	}
}

// responses are those of the routes of all servers.
var responses sync.Map

// maxResponses is the most that a route of Kubernetes has.
const maxResponses = 4

// shareResponses replaces the responses of a route by equal ones of the process.
func shareResponses(route *restful.Route) {
	var key [maxResponses]struct {
		code    int
		message string
		model   reflect.Type
	}
	if len(route.ResponseErrors) > maxResponses {
		return
	}
	for i, code := range slices.Sorted(maps.Keys(route.ResponseErrors)) {
		response := route.ResponseErrors[code]
		model := reflect.Indirect(reflect.ValueOf(response.Model))
		if response.Headers != nil || response.Extensions != nil || !model.IsValid() || !model.IsZero() {
			return
		}
		key[i].code, key[i].message, key[i].model = code, response.Message, reflect.TypeOf(response.Model)
	}
	shared, _ := responses.LoadOrStore(key, route.ResponseErrors)
	route.ResponseErrors = shared.(map[int]restful.ResponseError)
}
