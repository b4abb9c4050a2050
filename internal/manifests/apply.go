package manifests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

// FieldManager owns the fields that manifests set.
const FieldManager = "kube-hyper-mini-manifests"

const (
	// establishTimeout bounds the time that a round waits for its CRDs. The next round
	// waits again.
	establishTimeout = 30 * time.Second
	establishedPoll  = 20 * time.Millisecond
	// conflictTimeout is the same for a CRD whose names are refused: the naming controller
	// may not have seen yet that they were changed, or are free.
	conflictTimeout = time.Second
)

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Applier applies the manifests of one directory.
type Applier struct {
	Config
	client dynamic.Interface
	mapper meta.ResettableRESTMapper

	mu      sync.Mutex
	summary Summary
}

// Summary is the result of the last round.
type Summary struct {
	// Objects that the manifests have.
	Objects int `json:"objects"`
	// Failures of the round, and what they are.
	Failures int    `json:"failures"`
	Error    string `json:"error,omitempty"`
}

// Summary returns the result of the last round. It is safe for concurrent use.
func (a *Applier) Summary() Summary {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.summary
}

// applied is the result of a round.
type applied struct {
	failed  []error // of files and objects, one for each
	objects int
	// unpruned means that objects are to be pruned once the files have settled.
	unpruned bool
}

// round reads the files and applies their objects. If a file cannot be read, its objects
// are not changed, and no object is pruned; nor is one unless the files have settled: a
// file that is being replaced is incomplete, or gone, for a moment.
func (a *Applier) round(ctx context.Context, files map[string]fileState, settled bool) applied {
	objects, errs := read(os.DirFS(a.Dir), files, Everything)
	if settled {
		now, err := scan(os.DirFS(a.Dir))
		settled = err == nil && maps.Equal(now, files) // what was read is what the scan found
	}
	errs = append(errs, duplicates(objects)...)
	errs = append(errs, a.applyObjects(ctx, objects, a.record)...)
	if len(errs) > 0 {
		return applied{failed: errs, objects: len(objects)}
	}
	unpruned, err := a.pruneAndRecord(ctx, objects, settled)
	if err != nil {
		errs = []error{err}
	}
	return applied{failed: errs, objects: len(objects), unpruned: unpruned}
}

// applyObjects applies CRDs, awaits those that the server accepts, and applies the other
// objects. It sorts objects in that order. It calls record, unless that is nil, with objects that it
// is about to apply.
func (a *Applier) applyObjects(ctx context.Context, objects []object,
	record func(context.Context, []object) error) []error {
	var crds, others []object
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() == crdKind {
			crds = append(crds, o)
		} else {
			others = append(others, o)
		}
	}
	accepted, errs := a.applyAll(ctx, crds, record)
	if len(crds) > 0 {
		errs = append(errs, a.awaitCRDs(ctx, accepted)...)
		a.mapper.Reset()
	}
	_, refused := a.applyAll(ctx, others, record)
	copy(objects, append(crds, others...))
	return append(errs, refused...)
}

// pruneAndRecord prunes, if that is configured, and records the applied objects. If there
// are objects to prune and the files have not settled, it does neither and returns true.
func (a *Applier) pruneAndRecord(ctx context.Context, objects []object, settled bool) (unpruned bool, err error) {
	inventory, err := a.loadInventory(ctx)
	if err != nil {
		return false, err
	}
	current := make([]reference, 0, len(objects))
	for _, o := range objects {
		current = append(current, referTo(o))
	}
	if slices.Equal(inventory, current) {
		return false, nil
	}
	removed := slices.DeleteFunc(inventory, func(ref reference) bool { return slices.Contains(current, ref) })
	switch {
	case a.Prune && !settled && len(removed) > 0:
		return true, nil
	case a.Prune && len(current) == 0:
		return false, fmt.Errorf("%s has no manifests: no object is pruned, because an empty directory is usually a "+
			"mistake; delete the objects with kubectl, or keep one manifest", a.Dir)
	case !a.Prune:
		removed = nil
	}
	for _, ref := range slices.Backward(removed) { // the last applied first
		if err := a.prune(ctx, ref); err != nil {
			return false, fmt.Errorf("prune %s: %w", ref, err)
		}
	}
	return false, a.saveInventory(ctx, current)
}

// applyAll applies objects, and returns those that the server accepts.
func (a *Applier) applyAll(ctx context.Context, objects []object,
	record func(context.Context, []object) error) (accepted []object, errs []error) {
	if record != nil && len(objects) > 0 {
		if err := record(ctx, objects); err != nil {
			errs = append(errs, err)
		}
	}
	for _, o := range objects {
		if ctx.Err() != nil {
			return accepted, append(errs, context.Cause(ctx))
		}
		if err := a.apply(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("%s: apply %s: %w", o.origin, referTo(o), err))
			continue
		}
		accepted = append(accepted, o)
	}
	return accepted, errs
}

func (a *Applier) apply(ctx context.Context, o object) error {
	mapping, err := a.mapping(o.GroupVersionKind())
	if err != nil {
		return err
	}
	if err := setNamespace(o, mapping); err != nil {
		return err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = a.resource(mapping, o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: FieldManager, Force: ptr.To(true), FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}

// setNamespace sets the default namespace, which the inventory needs, or returns an error for one
// that the type does not have.
func setNamespace(o object, mapping *meta.RESTMapping) error {
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case namespaced && o.GetNamespace() == "":
		o.SetNamespace(metav1.NamespaceDefault)
	case !namespaced && o.GetNamespace() != "":
		return fmt.Errorf("metadata.namespace is %q, but the type is cluster-scoped; remove the field", o.GetNamespace())
	}
	return nil
}

func (a *Applier) resource(mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	return a.client.Resource(mapping.Resource)
}

// mapping returns the mapping of a kind. For an unknown kind it resets the cached
// discovery and tries again: the CRD may be new.
func (a *Applier) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if meta.IsNoMatchError(err) {
		return nil, notServed(gvk, err)
	}
	return mapping, err
}

// notServed returns the error for a kind that the server does not have. Groups of CRDs
// have a dot.
func notServed(gvk schema.GroupVersionKind, err error) error {
	remedy := "its CRD is missing, or has other versions"
	switch {
	case !strings.Contains(gvk.Group, "."):
		remedy = "kinds that need nodes or workloads are served with apis.profile: kubernetes only"
	case strings.HasSuffix(gvk.Group, ".k8s.io"):
		remedy = "its CRD is missing, or it needs apis.profile: kubernetes"
	}
	return fmt.Errorf("the server does not serve the kind %s of %s: %s (%w)", gvk.Kind, gvk.GroupVersion(), remedy, err)
}

// awaitCRDs waits until each CRD is served.
func (a *Applier) awaitCRDs(ctx context.Context, crds []object) (errs []error) {
	refused := time.Now().Add(conflictTimeout)
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	for _, crd := range crds {
		reason := errors.New("the time is over")
		_ = wait.PollUntilContextCancel(ctx, establishedPoll, true, func(ctx context.Context) (bool, error) {
			if now := a.notEstablished(ctx, crd); ctx.Err() == nil {
				reason = now
			}
			return reason == nil || errors.Is(reason, errNamesRefused) && time.Now().After(refused), nil
		}) // the reason says more
		if reason != nil {
			errs = append(errs, fmt.Errorf("%s: %s is not established: %w", crd.origin, referTo(crd), reason))
		}
	}
	return errs
}

// errNamesRefused is the remedy for a CRD whose names are not accepted.
var errNamesRefused = errors.New(
	"another CRD of the group has one of its names; change the names, or delete the other CRD")

// notEstablished returns why a CRD is not established yet, or nil.
func (a *Applier) notEstablished(ctx context.Context, crd object) error {
	mapping, err := a.mapping(crd.GroupVersionKind())
	if err != nil {
		return err
	}
	found, err := a.client.Resource(mapping.Resource).Get(ctx, crd.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(found.Object, "status", "conditions")
	if err != nil {
		return err
	}
	problem := errors.New("the CRD has no conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		switch {
		case condition["type"] == "Established" && condition["status"] == "True":
			return nil
		case condition["status"] != "False" || errors.Is(problem, errNamesRefused):
		case condition["type"] == "NamesAccepted":
			problem = fmt.Errorf("%v: %v: %w", condition["reason"], condition["message"], errNamesRefused)
		default:
			problem = fmt.Errorf("%v: %v", condition["reason"], condition["message"])
		}
	}
	return problem
}
