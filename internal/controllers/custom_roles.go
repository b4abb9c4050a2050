package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedrbac "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
)

const (
	// ownGroup ends the groups whose types are for administrators.
	ownGroup = "kube-hyper-mini.io"
	// customRolesPause is the least time between two updates: each makes the controller of
	// aggregated roles write view, edit and admin.
	customRolesPause = 3 * time.Second
)

// customRoles writes the rules of [servedtypes.Roles].
type customRoles struct {
	definitions func() []string // the names of all CRDs
	roles       typedrbac.ClusterRoleInterface
	wake        chan struct{}
}

// buildCustomRoles uses the service account of the controller of aggregated roles, which may
// write any rule.
func buildCustomRoles(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	c := &customRoles{definitions: env.config.Types.Definitions, roles: client.RbacV1().ClusterRoles(),
		wake: make(chan struct{}, 1)}
	env.atEnd(env.config.Types.OnChange(c.changed))
	return func(ctx context.Context) {
		failed := false // a failure is logged once until an update succeeds
		c.changed()     // since the last run
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
			}
			err := c.update(ctx)
			if err != nil {
				c.changed()
				if !failed && ctx.Err() == nil {
					env.config.Log.Warn("updating the roles of custom resources failed, trying again", "error", err)
				}
			}
			failed = err != nil
			reconcile.Pause(ctx, customRolesPause)
		}
	}, nil
}

// changed requests an update. It never blocks.
func (c *customRoles) changed() {
	select {
	case c.wake <- struct{}{}:
	default: // an update is requested already
	}
}

func (c *customRoles) update(ctx context.Context) error {
	view, edit := customRules(c.definitions())
	return errors.Join(c.write(ctx, servedtypes.ViewRole, view), c.write(ctx, servedtypes.EditRole, edit))
}

// write replaces the rules of a role, unless an administrator has deleted it or excluded it
// from reconciliation, as roles of the bootstrap policy.
func (c *customRoles) write(ctx context.Context, name string, rules []rbacv1.PolicyRule) error {
	role, err := c.roles.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the cluster role %s: %w", name, err)
	}
	if role.Annotations[rbacv1.AutoUpdateAnnotationKey] == "false" || equality.Semantic.DeepEqual(role.Rules, rules) {
		return nil
	}
	role.Rules = rules
	if _, err := c.roles.Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update the cluster role %s: %w", name, err)
	}
	return nil
}

// customRules returns a rule for each group of the CRDs. Their names are PLURAL.GROUP. A rule
// has the subresources, whether a type has them or not: schemas are not read for this.
func customRules(definitions []string) (view, edit []rbacv1.PolicyRule) {
	plurals := map[string][]string{}
	for _, definition := range definitions {
		plural, group, _ := strings.Cut(definition, ".")
		if group != ownGroup && !strings.HasSuffix(group, "."+ownGroup) {
			plurals[group] = append(plurals[group], plural)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(plurals)) {
		var read, written []string
		slices.Sort(plurals[group])
		for _, plural := range plurals[group] {
			written = append(written, plural, plural+"/scale")
			read = append(read, plural, plural+"/scale", plural+"/status")
		}
		view = append(view, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: read,
			Verbs: []string{"get", "list", "watch"}})
		edit = append(edit, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: written,
			Verbs: []string{"create", "delete", "deletecollection", "patch", "update"}})
	}
	return view, edit
}
