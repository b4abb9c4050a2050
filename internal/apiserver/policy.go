package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// policyPoll is the time between two looks at what the authorizer has seen.
const policyPoll = 2 * time.Millisecond

// AwaitPolicy returns when the RBAC authorizer has seen the bootstrap policy
// that [kube.EnsureRBAC] has written: its caches follow the writes by milliseconds. An
// informer that is refused in between tries again after a second only.
func (s *Server) AwaitPolicy(ctx context.Context) error {
	if !s.rbac {
		return nil
	}
	rbac := s.informers.Rbac().V1()
	roles, bindings := rbac.ClusterRoles().Lister(), rbac.ClusterRoleBindings().Lister()
	seen := func(context.Context) (bool, error) {
		for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
			if _, err := bindings.Get(binding.Name); err != nil {
				return false, nil
			}
			if _, err := roles.Get(binding.RoleRef.Name); err != nil {
				return false, nil
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextCancel(ctx, policyPoll, true, seen); err != nil {
		return fmt.Errorf("wait until RBAC has seen the bootstrap policy: %w", context.Cause(ctx))
	}
	return nil
}
