package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// policyPoll is the interval at which AwaitPolicy checks the caches of the authorizer.
const policyPoll = 2 * time.Millisecond

// AwaitPolicy returns when the caches of the RBAC authorizer have the bootstrap policy
// that [kube.EnsureRBAC] has written, some milliseconds after the writes. An informer
// whose request is refused before that retries only after a second.
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
		return fmt.Errorf("wait until the RBAC authorizer has the bootstrap policy: %w", context.Cause(ctx))
	}
	return nil
}
