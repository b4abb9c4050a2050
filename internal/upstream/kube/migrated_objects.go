package kube

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Upstream fact: a storage version migration rewrites objects with PATCH
//
// Mirrors: k8s.io/kubernetes/pkg/controller/storageversionmigrator.SVMController.runMigration
//   k8s.io/kubernetes/pkg/controller/storageversionmigrator.isRetriableError
// Why: the status of a migration says only whether it runs.
// Gain: a terminal shows how far migrations are, and the log has the number of objects.
// Breaks: both say 0 objects. TestStorageVersionMigration fails.

// apiRequests resolves the paths of the API.
var apiRequests = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// MigratedObject returns the type of the object that a request of the migration controller
// has rewritten. It reports false for other requests and for those that have failed: a
// conflict means that another client has changed or deleted the object.
func MigratedObject(r *http.Request, response *http.Response) (schema.GroupResource, bool) {
	if r.Method != http.MethodPatch || response.StatusCode != http.StatusOK {
		return schema.GroupResource{}, false
	}
	info, err := apiRequests.NewRequestInfo(r)
	if err != nil {
		return schema.GroupResource{}, false // not a path of the API
	}
	return schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, true
}
