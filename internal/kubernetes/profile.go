package kubernetes

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/plugin/pkg/admission/scheduling/podgroupprotection"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// Resources are the API versions that are on by default, and those that
// runtimeConfig can switch on: kube-apiserver's, with storage version migration
// on, as in the generic profile.
func Resources() *serverstorage.ResourceConfig {
	resources := controlplane.DefaultAPIResourceConfigSource()
	resources.EnableVersions(storagemigrationv1beta1.SchemeGroupVersion)
	return resources
}

// DefaultOffPlugins are the admission plugins that are off by default:
// kube-apiserver's, and those that add finalizers whose controllers do not run here.
// With them the deletion of a namespace with a volume claim would not end.
func DefaultOffPlugins() sets.Set[string] {
	return kubeoptions.DefaultOffAdmissionPlugins().Insert(storageobjectinuseprotection.PluginName,
		podgroupprotection.PluginName)
}

// New creates the API server of all types, in front of delegate. c is the configuration of the
// native API server, which it changes. Shared means that several servers may use the etcd. The
// storage factory must be able to connect to etcd: the allocator of node ports makes a client of
// its own.
func New(c *controlplaneapiserver.Config, o *Options, shared bool,
	delegate genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	services, err := o.services()
	if err != nil {
		return nil, err
	}
	capabilities.Setup(o.allowPrivileged, 0)
	server, err := workloads.New(c, services, shared, delegate)
	if err != nil {
		return nil, fmt.Errorf("create the API server of the profile kubernetes: %w", err)
	}
	return server, nil
}

// kubeletRequests are the subresources that a kubelet or a container answers.
var kubeletRequests = map[string]map[string]bool{
	"pods":     {"attach": true, "exec": true, "log": true, "portforward": true, "proxy": true},
	"nodes":    {"proxy": true},
	"services": {"proxy": true},
}

// RefuseKubelet answers requests that need a kubelet or a container with an error (405
// MethodNotAllowed) that has the reason, and passes the others to next. Requests must
// have been authenticated and authorized.
func RefuseKubelet(next http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.APIGroup != corev1.GroupName ||
			!kubeletRequests[info.Resource][info.Subresource] {
			next.ServeHTTP(w, r)
			return
		}
		err := apierrors.NewMethodNotSupported(corev1.Resource(info.Resource+"/"+info.Subresource), info.Verb)
		err.ErrStatus.Message = fmt.Sprintf("%s/%s is not available: kube-hyper-mini stores %s as data, and nothing runs "+
			"them: there is no kubelet and no container to connect to",
			info.Resource, info.Subresource, info.Resource)
		responsewriters.ErrorNegotiated(err, serializer, corev1.SchemeGroupVersion, w, r)
	})
}
