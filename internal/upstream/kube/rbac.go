package kube

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedrbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// rbacWriters bounds the writes in flight. The writes wait for the disk and
// not for the processor, so there are more of them than cores.
const rbacWriters = 16

// Upstream fact: the bootstrap RBAC policy is written one object after the other
//
// Mirrors: k8s.io/kubernetes/pkg/registry/rbac/rest.PolicyData.EnsureRBACPolicy
//   k8s.io/kubernetes/pkg/registry/rbac/rest.RESTStorageProvider.PostStartHook
//   k8s.io/component-helpers/auth/rbac/reconciliation.ReconcileRoleOptions
//   k8s.io/component-helpers/auth/rbac/reconciliation.ReconcileRoleBindingOptions
// Why: the first attempt of the hook comes after a second, and it reads and
//   writes 150 objects in a row. This reads each type once and writes at the same
//   time, with the same reconciliation.
// Gain: a cold start to the first authenticated write takes 1.5 s less than with the
//   hook (bench, start; trial).
// Breaks: the policy lacks a step that Kubernetes adds, such as a migration of roles.
//   Those from Kubernetes 1.8 and older are left out: no such data exists here. Tests:
//   TestBootstrapPolicyIsKubeAPIServers.

// FurtherPolicy is what a server has besides the bootstrap policy of Kubernetes.
type FurtherPolicy struct {
	ClusterRoles []rbacv1.ClusterRole
	// Role and RoleBinding are in a namespace of the bootstrap policy.
	Role        rbacv1.Role
	RoleBinding rbacv1.RoleBinding
}

// EnsureRBAC brings the bootstrap policy of Kubernetes, and a further one, up to
// date: it creates missing objects and adds missing rules and subjects. It removes
// nothing.
func EnsureRBAC(ctx context.Context, client kubernetes.Interface, log *slog.Logger, further FurtherPolicy) error {
	rbac := client.RbacV1()
	// From the watch caches as they are: they wait up to 100 ms for the current revision.
	// The reconciliation reads an object again that another server has created meanwhile.
	cached := metav1.ListOptions{ResourceVersion: "0"}
	clusterRoles, err := rbac.ClusterRoles().List(ctx, cached)
	if err != nil {
		return fmt.Errorf("list cluster roles: %w", err)
	}
	bindings, err := rbac.ClusterRoleBindings().List(ctx, cached)
	if err != nil {
		return fmt.Errorf("list cluster role bindings: %w", err)
	}
	// Cluster roles first: a binding is checked against the role it names.
	group := &writers{log: log}
	group.SetLimit(rbacWriters)
	group.namespaced(client, rbac, further) // the longest sequences; their bindings name roles of the namespace
	existing := map[string]*rbacv1.ClusterRole{}
	for i := range clusterRoles.Items {
		existing[clusterRoles.Items[i].Name] = &clusterRoles.Items[i]
	}
	for _, role := range slices.Concat(bootstrappolicy.ClusterRoles(),
		bootstrappolicy.ControllerRoles(), further.ClusterRoles) {
		group.role(reconciliation.ClusterRoleRuleOwner{ClusterRole: &role},
			&knownRole{reconciliation.ClusterRoleModifier{Client: rbac.ClusterRoles()}, existing[role.Name], false})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	group = &writers{log: log}
	group.SetLimit(rbacWriters)
	bound := map[string]*rbacv1.ClusterRoleBinding{}
	for i := range bindings.Items {
		bound[bindings.Items[i].Name] = &bindings.Items[i]
	}
	for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		group.binding(reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &binding},
			&knownBinding{reconciliation.ClusterRoleBindingClientAdapter{Client: rbac.ClusterRoleBindings()},
				bound[binding.Name], false})
	}
	return group.Wait()
}

// writers reconciles several objects at once.
type writers struct {
	errgroup.Group
	log *slog.Logger
}

// namespaced reconciles the roles and bindings in kube-system and kube-public.
func (w *writers) namespaced(client kubernetes.Interface, rbac typedrbac.RbacV1Interface, further FurtherPolicy) {
	namespaces := client.CoreV1().Namespaces()
	policy, bindings := maps.Clone(bootstrappolicy.NamespaceRoles()), maps.Clone(bootstrappolicy.NamespaceRoleBindings())
	namespace := further.Role.Namespace
	policy[namespace] = append(slices.Clone(policy[namespace]), further.Role)
	bindings[namespace] = append(slices.Clone(bindings[namespace]), further.RoleBinding)
	for namespace, roles := range policy {
		w.Go(func() error {
			// In order: the bindings name the roles.
			sequence := &writers{log: w.log}
			sequence.SetLimit(1)
			for _, role := range roles {
				sequence.role(reconciliation.RoleRuleOwner{Role: &role},
					reconciliation.RoleModifier{Client: rbac, NamespaceClient: namespaces})
			}
			for _, binding := range bindings[namespace] {
				sequence.binding(reconciliation.RoleBindingAdapter{RoleBinding: &binding},
					reconciliation.RoleBindingClientAdapter{Client: rbac, NamespaceClient: namespaces})
			}
			return sequence.Wait()
		})
	}
}

func (w *writers) role(role reconciliation.RuleOwner, client reconciliation.RuleOwnerModifier) {
	options := reconciliation.ReconcileRoleOptions{Role: role, Client: client, Confirm: true}
	w.reconcile("role", role.GetName(), func() (missing any, err error) {
		result, err := options.Run()
		if err == nil && result.Protected && result.Operation != reconciliation.ReconcileNone {
			missing = result.MissingRules
		}
		return missing, err
	})
}

func (w *writers) binding(binding reconciliation.RoleBinding, client reconciliation.RoleBindingModifier) {
	options := reconciliation.ReconcileRoleBindingOptions{RoleBinding: binding, Client: client, Confirm: true}
	w.reconcile("role binding", binding.GetName(), func() (missing any, err error) {
		result, err := options.Run()
		if err == nil && result.Protected && result.Operation != reconciliation.ReconcileNone {
			missing = result.MissingSubjects
		}
		return missing, err
	})
}

// reconcile calls run, which returns what the object lacks if it is protected.
func (w *writers) reconcile(kind, name string, run func() (missing any, err error)) {
	w.Go(func() error {
		var missing any
		err := retry.OnError(retry.DefaultBackoff, retriable, func() (err error) {
			missing, err = run()
			return err
		})
		if err != nil {
			return fmt.Errorf("reconcile %s %s: %w", kind, name, err)
		}
		if missing != nil {
			w.log.Warn("a bootstrap "+kind+" is protected from reconciliation and is not complete", "name", name,
				"missing", fmt.Sprint(missing))
		}
		return nil
	})
}

func retriable(err error) bool {
	// Another server on the same etcd may write them at the same time.
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsServiceUnavailable(err)
}

// knownRole answers the first Get from an earlier list, and later ones from the server:
// a retry must read the object of its conflict.
type knownRole struct {
	reconciliation.ClusterRoleModifier
	known *rbacv1.ClusterRole
	used  bool // known was returned
}

// Get implements [reconciliation.RuleOwnerModifier].
func (k *knownRole) Get(namespace, name string) (reconciliation.RuleOwner, error) {
	if k.used {
		return k.ClusterRoleModifier.Get(namespace, name)
	}
	k.used = true
	if k.known == nil {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
	}
	return reconciliation.ClusterRoleRuleOwner{ClusterRole: k.known}, nil
}

// knownBinding is knownRole for cluster role bindings.
type knownBinding struct {
	reconciliation.ClusterRoleBindingClientAdapter
	known *rbacv1.ClusterRoleBinding
	used  bool // known was returned
}

// Get implements [reconciliation.RoleBindingModifier].
func (k *knownBinding) Get(namespace, name string) (reconciliation.RoleBinding, error) {
	if k.used {
		return k.ClusterRoleBindingClientAdapter.Get(namespace, name)
	}
	k.used = true
	if k.known == nil {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrolebindings"), name)
	}
	return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: k.known}, nil
}
