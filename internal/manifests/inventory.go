package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reference identifies an object without its version, which a manifest may change.
type reference struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func referTo(o object) reference {
	gvk := o.GroupVersionKind()
	return reference{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// String names the object for messages.
func (r reference) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}.String() + " " + name
}

// The inventory is a config map in kube-system.
const (
	inventoryName = "kube-hyper-mini-manifests"
	inventoryKey  = "objects"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// loadInventory returns the objects that were applied by the last round without failures, or since.
func (a *Applier) loadInventory(ctx context.Context) ([]reference, error) {
	stored, err := a.client.Resource(configMaps).Namespace(metav1.NamespaceSystem).Get(ctx, inventoryName,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	text, _, err := unstructured.NestedString(stored.Object, "data", inventoryKey)
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	var inventory []reference
	if err := json.Unmarshal([]byte(text), &inventory); err != nil {
		return nil, fmt.Errorf("read the inventory in config map %s/%s: %w; delete the config map to start a new one: "+
			"no object is pruned then", metav1.NamespaceSystem, inventoryName, err)
	}
	return inventory, nil
}

func (a *Applier) saveInventory(ctx context.Context, inventory []reference) error {
	data, err := json.Marshal(inventory)
	if err != nil {
		return fmt.Errorf("write the inventory: %w", err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": inventoryName, "namespace": metav1.NamespaceSystem},
		"data":     map[string]any{inventoryKey: string(data)},
	}}
	_, err = a.client.Resource(configMaps).Namespace(metav1.NamespaceSystem).Apply(ctx, inventoryName, o,
		metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("write the inventory: %w", err)
	}
	return nil
}

// record adds objects to the inventory before they are applied: rounds that fail, or do not end,
// leave none that a later round does not prune. It skips those of kinds that are unknown so far: if
// this round applies them after all, it records them at its end, or the next one does.
func (a *Applier) record(ctx context.Context, objects []object) error {
	inventory, err := a.loadInventory(ctx)
	if err != nil {
		return err
	}
	stored := len(inventory)
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil || setNamespace(o, mapping) != nil {
			continue
		}
		if ref := referTo(o); !slices.Contains(inventory, ref) {
			inventory = append(inventory, ref)
		}
	}
	if len(inventory) == stored {
		return nil
	}
	return a.saveInventory(ctx, inventory)
}

// prune deletes an object without a manifest. One without fields of this field manager is kept:
// other managers own it.
func (a *Applier) prune(ctx context.Context, ref reference) error {
	mapping, err := a.mapping(schema.GroupVersionKind{Group: ref.Group, Kind: ref.Kind})
	if meta.IsNoMatchError(err) {
		return nil // deleted with its CRD
	}
	if err != nil {
		return err
	}
	resource := a.resource(mapping, ref.Namespace)
	found, err := resource.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == FieldManager && f.Operation == metav1.ManagedFieldsOperationApply
	}) {
		a.Log.Info("a manifest was removed: its object is kept because other field managers own its fields", "object",
			ref.String())
		return nil
	}
	uid, background := found.GetUID(), metav1.DeletePropagationBackground
	err = resource.Delete(ctx, ref.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	a.Log.Info("pruned", "object", ref.String())
	return nil
}
