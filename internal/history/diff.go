package history

import (
	"fmt"

	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Diff returns the difference of two versions as a unified diff of YAML, without the
// managed fields and with the values of a Secret masked, as kubectl diff does. It is
// empty if nothing else differs.
func Diff(before, after *unstructured.Unstructured, beforeName, afterName string) (string, error) {
	before, after = before.DeepCopy(), after.DeepCopy()
	if before.GetKind() == "Secret" && before.GroupVersionKind().Group == "" {
		maskSecrets(before, after)
	}
	var texts []string
	for _, object := range []*unstructured.Unstructured{before, after} {
		object.SetManagedFields(nil)
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return "", fmt.Errorf("render a version: %w", err)
		}
		texts = append(texts, string(text))
	}
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(texts[0]), B: difflib.SplitLines(texts[1]),
		FromFile: beforeName, ToFile: afterName, Context: 3,
	})
	if err != nil {
		return "", fmt.Errorf("compare two versions: %w", err)
	}
	return diff, nil
}

// maskSecrets replaces values by text that shows whether they differ.
func maskSecrets(before, after *unstructured.Unstructured) {
	for _, object := range []*unstructured.Unstructured{before, after} {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation) // repeats the values
	}
	for _, field := range []string{"data", "stringData"} {
		old, _, oldErr := unstructured.NestedMap(before.Object, field)
		now, _, nowErr := unstructured.NestedMap(after.Object, field)
		if oldErr != nil || nowErr != nil {
			before.Object[field], after.Object[field] = "***", "***"
			continue
		}
		for name, value := range old {
			masked := "***"
			if other, both := now[name]; both && value != other {
				masked = "*** (before)"
				now[name] = "*** (after)"
			} else if both {
				now[name] = masked
			}
			old[name] = masked
		}
		for name := range now {
			if _, both := old[name]; !both {
				now[name] = "***"
			}
		}
		if old != nil {
			before.Object[field] = old
		}
		if now != nil {
			after.Object[field] = now
		}
	}
}
