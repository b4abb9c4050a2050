package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	flowcontrol "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/namespace"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// CreateFirstObjects stores the objects that every server has in the store of a new one: RBAC policy,
// flow control, namespaces and APIServices, as its controllers would leave them. The 210 requests for
// them would take longer than the rest of its start. Upstream's controllers find their objects.
// Call it when the store can be read, before FillCaches.
func (s *Server) CreateFirstObjects(ctx context.Context) error {
	if isNew, err := s.storage.IsNew(ctx); err != nil || !isNew {
		return err
	}
	first := &firstObjects{server: s}
	first.addPolicy()
	if s.flowControl {
		first.addFlowControl()
	}
	for _, name := range s.namespaces {
		object := &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		namespace.Strategy.PrepareForCreate(ctx, object)
		namespace.Strategy.Canonicalize(object)
		first.add(corev1.SchemeGroupVersion.WithResource("namespaces"), object)
	}
	for _, service := range s.apiServices {
		apiservice.NewStrategy(aggregatorscheme.Scheme).PrepareForCreate(ctx, service)
		first.objects = append(first.objects, storage.FirstObject{Stores: s.apiServiceStores,
			Resource: apiregistration.Resource("apiservices"), Object: service})
	}
	if err := s.storage.CreateFirst(ctx, first.objects); err != nil {
		return err
	}
	s.hasFirstObjects = true
	return nil
}

// firstObjects collects what CreateFirstObjects stores.
type firstObjects struct {
	server  *Server
	objects []storage.FirstObject
}

// add adds a copy of object, if its resource is served.
func (f *firstObjects) add(resource schema.GroupVersionResource, object runtime.Object) {
	if f.server.Serves(resource) {
		f.objects = append(f.objects, storage.FirstObject{Stores: f.server.stores, Resource: resource.GroupResource(),
			Object: object.DeepCopyObject()})
	}
}

func (f *firstObjects) addPolicy() {
	rbac, policy := rbacv1.SchemeGroupVersion, firstPolicy()
	for _, role := range policy.ClusterRoles {
		f.add(rbac.WithResource("clusterroles"), &role)
	}
	for _, binding := range policy.ClusterRoleBindings {
		f.add(rbac.WithResource("clusterrolebindings"), &binding)
	}
	for _, role := range slices.Concat(slices.Collect(maps.Values(policy.Roles))...) {
		f.add(rbac.WithResource("roles"), &role)
	}
	for _, binding := range slices.Concat(slices.Collect(maps.Values(policy.RoleBindings))...) {
		f.add(rbac.WithResource("rolebindings"), &binding)
	}
}

func (f *firstObjects) addFlowControl() {
	flow := flowcontrolv1.SchemeGroupVersion
	for _, level := range slices.Concat(flowcontrol.MandatoryPriorityLevelConfigurations,
		flowcontrol.SuggestedPriorityLevelConfigurations) {
		level = level.DeepCopy()
		level.Generation = 1 // as the server's strategy
		f.add(flow.WithResource("prioritylevelconfigurations"), level)
	}
	for _, schema := range slices.Concat(flowcontrol.MandatoryFlowSchemas, flowcontrol.SuggestedFlowSchemas) {
		schema = schema.DeepCopy()
		schema.Generation = 1
		schema.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{priorityLevelFound(schema)}
		f.add(flow.WithResource("flowschemas"), schema)
	}
}

// priorityLevelFound is the condition that the controller of flow control sets
// (presyncFlowSchemaStatus of k8s.io/apiserver/pkg/util/flowcontrol). It sets any other one again.
func priorityLevelFound(schema *flowcontrolv1.FlowSchema) flowcontrolv1.FlowSchemaCondition {
	return flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse,
		LastTransitionTime: metav1.Now(), Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists",
			schema.Spec.PriorityLevelConfiguration.Name),
	}
}

// firstPolicy is bootstrapPolicy with the rules that aggregated cluster roles take from others. The
// servers of a process share it: do not change it.
var firstPolicy = sync.OnceValue(func() kube.Policy {
	policy := bootstrapPolicy()
	for changed := true; changed; { // a role may take from one that takes from others
		changed = false
		for i := range policy.ClusterRoles {
			role := &policy.ClusterRoles[i]
			if role.AggregationRule == nil {
				continue
			}
			rules := aggregatedRules(role, policy.ClusterRoles)
			changed = changed || len(rules) != len(role.Rules)
			role.Rules = rules
		}
	}
	return policy
})

// aggregatedRules are those that k8s.io/kubernetes/pkg/controller/clusterroleaggregation gives the role.
func aggregatedRules(role *rbacv1.ClusterRole, roles []rbacv1.ClusterRole) []rbacv1.PolicyRule {
	byName := slices.SortedFunc(slices.Values(roles), func(a, b rbacv1.ClusterRole) int {
		return strings.Compare(a.Name, b.Name)
	})
	var rules []rbacv1.PolicyRule
	for _, labelSelector := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&labelSelector)
		if err != nil {
			continue // the controller reports it
		}
		for _, other := range byName {
			if other.Name == role.Name || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				if !slices.ContainsFunc(rules, func(has rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(has, rule) }) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

// builtInAPIServices are those that upstream makes for the groups that the server serves itself
// (apiServicesToRegister of k8s.io/kubernetes/pkg/controlplane/apiserver).
func (b *builder) builtInAPIServices(served genericapiserver.DelegationTarget) []*apiregistration.APIService {
	var services []*apiregistration.APIService
	paths := sets.New(served.ListedPaths()...)
	for version, priority := range b.groupPriorities() {
		if !paths.HasAny("/apis/"+version.String(), "/api/"+version.String()) {
			continue
		}
		services = append(services, &apiregistration.APIService{
			ObjectMeta: metav1.ObjectMeta{
				Name:   kube.APIServiceName(version),
				Labels: map[string]string{autoregister.AutoRegisterManagedLabel: kube.ManagedOnStart},
			},
			Spec: apiregistration.APIServiceSpec{Group: version.Group, Version: version.Version,
				GroupPriorityMinimum: priority.Group, VersionPriority: priority.Version},
		})
	}
	return services
}
