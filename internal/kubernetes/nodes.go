package kubernetes

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

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
