package apiserver

import (
	"context"
	"maps"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	flowcontrol "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// CreateFirstObjects stores the RBAC policy and the flow control of a new server: the 170 requests
// for them would take as long as the rest of its start. [kube.EnsureRBAC] is not called then, and
// upstream's post-start hook finds its objects. Call it when the store can be read, before FillCaches.
func (s *Server) CreateFirstObjects(ctx context.Context) error {
	if isNew, err := s.storage.IsNew(ctx); err != nil || !isNew {
		return err
	}
	var objects []storage.FirstObject
	add := func(resource schema.GroupVersionResource, object runtime.Object) {
		if s.Serves(resource) {
			objects = append(objects, storage.FirstObject{Resource: resource.GroupResource(), Object: object.DeepCopyObject()})
		}
	}
	rbac, policy := rbacv1.SchemeGroupVersion, bootstrapPolicy()
	for _, role := range policy.ClusterRoles {
		add(rbac.WithResource("clusterroles"), &role)
	}
	for _, binding := range policy.ClusterRoleBindings {
		add(rbac.WithResource("clusterrolebindings"), &binding)
	}
	for _, role := range slices.Concat(slices.Collect(maps.Values(policy.Roles))...) {
		add(rbac.WithResource("roles"), &role)
	}
	for _, binding := range slices.Concat(slices.Collect(maps.Values(policy.RoleBindings))...) {
		add(rbac.WithResource("rolebindings"), &binding)
	}
	if s.flowControl {
		flow := flowcontrolv1.SchemeGroupVersion
		for _, level := range slices.Concat(flowcontrol.MandatoryPriorityLevelConfigurations,
			flowcontrol.SuggestedPriorityLevelConfigurations) {
			level = level.DeepCopy()
			level.Generation = 1 // as the server's strategy
			add(flow.WithResource("prioritylevelconfigurations"), level)
		}
		for _, schema := range slices.Concat(flowcontrol.MandatoryFlowSchemas, flowcontrol.SuggestedFlowSchemas) {
			schema = schema.DeepCopy()
			schema.Generation = 1
			add(flow.WithResource("flowschemas"), schema)
		}
	}
	if err := s.storage.CreateFirst(ctx, s.stores, objects); err != nil {
		return err
	}
	s.hasPolicy = true
	return nil
}
