package races

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Config is the size of the scenario.
type Config struct {
	// Rounds of each deletion policy. Each has two CRDs of its own.
	Rounds int
	// Dependents of each owner.
	Dependents int
	// Patience is how long an outcome is waited for.
	Patience time.Duration
}

// Outcome is what became of the owners and dependents.
type Outcome struct {
	// Right counts the rounds that ended as their policy requires.
	Right map[metav1.DeletionPropagation]int
	// Wrong describes the others.
	Wrong []string
}

const (
	hold         = "races.example.com/hold"
	pollInterval = 20 * time.Millisecond
	workers      = 6
)

var (
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	policies   = []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan}
)

// Run runs the scenario in a namespace of that name, which it makes, and
// returns when all rounds have ended.
func Run(ctx context.Context, config *rest.Config, namespace string, c Config) (Outcome, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return Outcome{}, fmt.Errorf("make a client: %w", err)
	}
	if _, err := client.Resource(namespaces).Create(ctx, object("v1", "Namespace", namespace, nil), metav1.CreateOptions{}); err != nil {
		return Outcome{}, fmt.Errorf("make the namespace: %w", err)
	}
	r := &run{config: c, client: client, namespace: namespace, outcome: Outcome{Right: map[metav1.DeletionPropagation]int{}}}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range c.Rounds {
		for _, policy := range policies {
			group.Go(func() error { return r.round(ctx, policy, i) })
		}
	}
	return r.outcome, group.Wait()
}

type run struct {
	config    Config
	client    *dynamic.DynamicClient
	namespace string

	mu      sync.Mutex
	outcome Outcome
}

// round makes an owner and dependents of types that had no object before,
// deletes the owner at once, and the CRDs when the outcome has been seen, or, in
// every third round, while the owner is being deleted.
func (r *run) round(ctx context.Context, policy metav1.DeletionPropagation, i int) error {
	group := fmt.Sprintf("r%d-%s.%s.example.com", i, map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationForeground: "fg", metav1.DeletePropagationBackground: "bg", metav1.DeletePropagationOrphan: "or",
	}[policy], r.namespace)
	owners, dependents := configMaps, schema.GroupVersionResource{Group: group, Version: "v1", Resource: "dependents"}
	ownerKind := "ConfigMap"
	if i%2 == 0 { // the owner's type is new as well
		owners, ownerKind = schema.GroupVersionResource{Group: group, Version: "v1", Resource: "owners"}, "Owner"
	}
	for plural, kind := range map[string]string{"dependents": "Dependent", "owners": "Owner"} {
		if err := r.define(ctx, group, plural, kind); err != nil {
			return err
		}
	}
	family := &family{
		owner: r.client.Resource(owners).Namespace(r.namespace), name: "owner." + group,
		dependents: r.client.Resource(dependents).Namespace(r.namespace), size: r.config.Dependents, patience: r.config.Patience,
	}
	if err := family.make(ctx, owners.GroupVersion().String(), ownerKind, dependents.GroupVersion().String(), policy); err != nil {
		return err
	}
	if err := family.deleteOwner(ctx, policy); err != nil {
		return err
	}
	var wrong error
	if i%3 == 2 && policy != metav1.DeletePropagationOrphan {
		wrong = r.deleteWhileCollected(ctx, family, group)
	} else {
		wrong = family.outcome(ctx, policy)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if wrong == nil {
		r.outcome.Right[policy]++
	} else {
		r.outcome.Wrong = append(r.outcome.Wrong, fmt.Sprintf("%s, round %d: %v", policy, i, wrong))
	}
	return r.removeCRDs(ctx, group)
}

// deleteWhileCollected deletes the CRD of the dependents, and everything must go.
func (r *run) deleteWhileCollected(ctx context.Context, f *family, group string) error {
	if err := r.client.Resource(crds).Delete(ctx, "dependents."+group, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := f.letGo(ctx); err != nil {
		return err
	}
	if err := f.await(ctx, "the CRD is gone", func() error {
		return absent(r.client.Resource(crds).Get(ctx, "dependents."+group, metav1.GetOptions{}))
	}); err != nil {
		return err
	}
	return f.await(ctx, "the owner is gone", f.ownerGone(ctx))
}

func (r *run) removeCRDs(ctx context.Context, group string) error {
	for _, plural := range []string{"dependents", "owners"} {
		if err := r.client.Resource(crds).Delete(ctx, plural+"."+group, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete a CRD: %w", err)
		}
	}
	return nil
}

// define makes a CRD and returns when its type can be listed.
func (r *run) define(ctx context.Context, group, plural, kind string) error {
	crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", plural+"."+group, nil)
	crd.Object["spec"] = map[string]any{
		"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}},
	}
	if _, err := r.client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make a CRD: %w", err)
	}
	list := r.client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}).Namespace(r.namespace)
	return wait.PollUntilContextTimeout(ctx, pollInterval, r.config.Patience, true, func(ctx context.Context) (bool, error) {
		_, err := list.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// object is a minimal object with owners.
func object(apiVersion, kind, name string, owners []metav1.OwnerReference) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	obj.SetName(name)
	obj.SetOwnerReferences(owners)
	return obj
}

func absent(_ any, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = errors.New("it exists")
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// release is a merge patch that removes the finalizers.
var release = []byte(`{"metadata":{"finalizers":null}}`)

const mergePatch = types.MergePatchType
