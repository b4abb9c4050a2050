package planes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

const (
	// definitionsLabel lets the creators of ControlPlanes read a config map of the host.
	definitionsLabel = "planes.kube-hyper-mini.io/crds"
	crdKind          = "CustomResourceDefinition"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// definitions returns the CRDs that a spec names, as files, and a hash of them; no files if the
// hash is the applied one. Those of a ControlPlane are read once: reading them wakes it.
func (m *Manager) definitions(ctx context.Context, from CRDs, applied string) (files fs.FS, hash string, err error) {
	if len(from.ConfigMaps) == 0 && (from.ControlPlane == "" || applied != "") {
		return nil, applied, nil
	}
	var content []json.RawMessage
	sum := sha256.New()
	for _, name := range from.ConfigMaps {
		found, err := m.definitionsIn(ctx, name)
		if err != nil {
			return nil, "", fmt.Errorf("read the CRDs in the config map %s/%s: %w", name.Namespace, name.Name, err)
		}
		content = append(content, found...)
		for _, crd := range found {
			sum.Write(crd) // a hash returns no error
		}
	}
	if hash = fmt.Sprintf("%x", sum.Sum(nil)); hash == applied {
		return nil, hash, nil
	}
	if from.ControlPlane != "" && applied == "" {
		found, err := m.definitionsOf(ctx, from.ControlPlane)
		if err = sourceError(err, from.ControlPlane, "correct spec.crds.controlPlane"); err != nil {
			return nil, "", fmt.Errorf("read the CRDs of the control plane %s: %w", from.ControlPlane, err)
		}
		content = append(content, found...)
	}
	collected := fstest.MapFS{} // the file system in memory of the standard library
	for i, crd := range content {
		collected[fmt.Sprintf("%06d.json", i)] = &fstest.MapFile{Data: crd}
	}
	return collected, hash, nil
}

// definitionsIn returns the CRDs in a config map of the host, if that has the label. Errors show
// nothing of its content.
func (m *Manager) definitionsIn(ctx context.Context, name ConfigMap) (found []json.RawMessage, err error) {
	o, err := m.objects.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(name.Namespace).Get(ctx,
		name.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if o.GetLabels()[definitionsLabel] != "true" {
		return nil, fmt.Errorf("it does not have the label %s=true, which lets control planes read it", definitionsLabel)
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(data[key])), 4096)
		for {
			crd := unstructured.Unstructured{}
			if err := decoder.Decode(&crd.Object); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("the value of %s is not YAML or JSON", key)
			}
			if len(crd.Object) == 0 {
				continue
			}
			if crd.GetKind() != crdKind || crd.GetAPIVersion() != crds.GroupVersion().String() {
				return nil, fmt.Errorf("the value of %s has an object that is not a %s of %s", key, crdKind, crds.GroupVersion())
			}
			text, err := json.Marshal(crd.Object)
			if err != nil {
				return nil, err
			}
			found = append(found, text)
		}
	}
	return found, nil
}

// definitionsOf returns the CRDs of another control plane, which it wakes.
func (m *Manager) definitionsOf(ctx context.Context, name string) (found []json.RawMessage, err error) {
	source, err := m.plane(name)
	if err != nil {
		return nil, err
	}
	server, done, err := source.useAsSource(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	client, err := dynamic.NewForConfig(server.RESTConfig())
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(crds).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		crd := o.(*unstructured.Unstructured)
		text, err := json.Marshal(map[string]any{
			"apiVersion": crds.GroupVersion().String(), "kind": crdKind, "spec": crd.Object["spec"],
			"metadata": map[string]any{"name": crd.GetName(), "labels": crd.GetLabels(), "annotations": crd.GetAnnotations()},
		})
		found = append(found, text)
		return err
	})
	return found, err
}
