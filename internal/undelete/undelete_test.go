package undelete

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
)

// object is an item with owners by their names.
func object(kind, namespace, name string, owners ...string) *Item {
	apiVersion := "v1"
	if kind == "Widget" {
		apiVersion = "example.com/v1"
	}
	item := &Item{Action: Create, APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, UID: types.UID(name)}
	for _, owner := range owners {
		item.owners = append(item.owners, metav1.OwnerReference{UID: types.UID(owner)})
	}
	return item
}

func names(items []*Item) string {
	var list []string
	for _, item := range items {
		list = append(list, item.Name)
	}
	return strings.Join(list, " ")
}

// TestChoose: what depends on an object, in the order of its creation.
func TestChoose(t *testing.T) {
	t.Parallel()
	all := []*Item{
		object("Secret", "ns", "leaf", "middle"), object("ConfigMap", "ns", "middle", "root", "elsewhere"), object("Widget", "ns", "root"),
		object("ConfigMap", "ns", "alone"), object("Namespace", "", "ns"), object("ResourceQuota", "ns", "quota"), object("ServiceAccount", "ns", "account"),
		object("Event", "ns", "event", "root"), object("Widget", "other", "far"), object("ConfigMap", "other", "of-far", "far"),
		object("ConfigMap", "cycle", "x", "y"), object("ConfigMap", "cycle", "y", "x"), object("ConfigMap", "cycle", "tail", "y"),
		object("Secret", "foreign", "across", "alone", "middle"), object("ClusterRole", "", "wide", "middle"),
		object("ClusterRole", "", "owner"), object("Secret", "foreign", "below", "owner"),
		object("ClusterRole", "", "company"), object("Namespace", "", "team-a", "company"), object("Namespace", "", "team-b", "company"),
		object("ConfigMap", "team-a", "in-a"), object("ServiceAccount", "team-a", "robot-a"), object("ConfigMap", "team-b", "in-b", "company"),
	}
	for _, c := range []struct {
		root       string
		definition *definition
		want       string
		cyclic     string
	}{
		{"root", nil, "root middle leaf", ""},
		{"middle", nil, "middle leaf", ""},
		{"alone", nil, "alone", ""},
		{"owner", nil, "owner below", ""},
		{"company", nil, "company team-a team-b robot-a in-b in-a", ""},
		{"ns", nil, "ns account root alone middle leaf quota", ""},
		{"alone", &definition{kind: schema.GroupKind{Group: "example.com", Kind: "Widget"}}, "alone root far middle of-far leaf", ""},
		{"x", nil, "y x tail", "x"},
	} {
		collected := &collection{all: all, dependents: map[types.UID][]*Item{}, inNamespace: map[string][]*Item{}}
		for _, item := range all {
			collected.inNamespace[item.Namespace] = append(collected.inNamespace[item.Namespace], item)
			for _, owner := range item.owners {
				collected.dependents[owner.UID] = append(collected.dependents[owner.UID], item)
			}
		}
		root := all[slices.IndexFunc(all, func(i *Item) bool { return i.Name == c.root })]
		chosen := collected.choose(root, c.definition)
		p := &Plan{byUID: map[types.UID]*Item{}, namespaces: map[string]*Item{}}
		p.order(chosen)
		cyclic := slices.DeleteFunc(slices.Clone(chosen), func(i *Item) bool { return i.Action != Refused })
		if got := names(chosen); got != c.want || names(cyclic) != c.cyclic {
			t.Errorf("%s: %s, want %s; cycle %s, want %s", c.root, got, c.want, names(cyclic), c.cyclic)
		}
	}
}

// TestOwnersAcrossNamespaces: an object in another namespace is no owner, for which the
// garbage collector would keep an object.
func TestOwnersAcrossNamespaces(t *testing.T) {
	t.Parallel()
	owner := object("Widget", "ns", "owner")
	p := &Plan{byUID: map[types.UID]*Item{"owner": owner}}
	p.uids.Store(types.UID("owner"), types.UID("new"))
	for namespace, want := range map[string]bool{"ns": true, "other": false} {
		item := object("Widget", namespace, "item", "owner")
		found, err := p.checkOwners(t.Context(), item)
		if err != nil || found != want || (item.Action == NoOwner) == want || len(p.references(item)) == 1 != want {
			t.Errorf("in %s: %t, %v, %s %q, references %v", namespace, found, err, item.Action, item.Reason, p.references(item))
		}
	}
	p.orphan = true
	if found, err := p.checkOwners(t.Context(), object("Widget", "other", "item", "owner")); err != nil || !found {
		t.Errorf("without the reference: %t, %v", found, err)
	}
}

// TestMatches: where the objects of a plan may be.
func TestMatches(t *testing.T) {
	t.Parallel()
	in := history.Object{Type: history.Type{Kind: "ConfigMap", Namespaced: true}, Namespace: "ns", Name: "a"}
	namespace := history.Object{Type: history.Type{Kind: "Namespace"}, Name: "ns"}
	cluster := history.Object{Type: history.Type{GroupResource: schema.GroupResource{Group: "example.com"}, Kind: "Widget"}, Name: "a"}
	for _, c := range []struct {
		object history.Object
		key    string
		want   bool
	}{
		{in, "/secrets/ns/b", true}, {in, "/example.com/widgets/ns/b", true}, {in, "/secrets/other/b", false}, {in, "/secrets/nsx/b", false},
		{namespace, "/secrets/ns/b", true}, {namespace, "/namespaces/ns", true}, {namespace, "/namespaces/other", false},
		{cluster, "/secrets/ns/b", true}, {cluster, "/namespaces/ns", true},
	} {
		if got := Matches(c.object)(c.key); got != c.want {
			t.Errorf("%s for %s: %t", c.key, c.object, got)
		}
	}
}

// TestPrepared: what the server sets is left out, and what a deletion has set.
func TestPrepared(t *testing.T) {
	t.Parallel()
	former := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
		"metadata": map[string]any{
			"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": int64(3), "creationTimestamp": "2026-01-01T00:00:00Z",
			"deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": int64(0), "selfLink": "x",
			"managedFields": []any{map[string]any{"manager": "m"}}, "finalizers": []any{"example.com/hold", "foregroundDeletion", "orphan"},
			"labels": map[string]any{"l": "1"}, "annotations": map[string]any{"kubernetes.io/service-account.name": "default", "kubernetes.io/service-account.uid": "old"},
			"ownerReferences": []any{map[string]any{"uid": "old"}},
		},
		"data": map[string]any{"token": "x"}, "status": map[string]any{"phase": "x"},
	}}
	before := fmt.Sprint(former.Object)
	got := prepared(former, []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "n", UID: "new"}}, false)
	want := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
		"metadata": map[string]any{
			"name": "a", "namespace": "b", "finalizers": []any{"example.com/hold"}, "labels": map[string]any{"l": "1"},
			"annotations":     map[string]any{"kubernetes.io/service-account.name": "default"},
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "new"}},
		},
	}
	if fmt.Sprint(got.Object) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got.Object, want)
	}
	if fmt.Sprint(former.Object) != before {
		t.Error("the former object was changed")
	}
	if got := prepared(former, nil, true); got.Object["status"] == nil || len(got.GetOwnerReferences()) > 0 {
		t.Errorf("with the status: %v", got.Object)
	}
	if !same(got, former) {
		t.Error("what was brought back is not the same")
	}
	got.SetLabels(map[string]string{"l": "2"})
	if same(got, former) {
		t.Error("what was changed is the same")
	}
}

// TestUnreadableItems: what cannot be read is named by its key.
func TestUnreadableItems(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"/secrets/ns/a":             "secrets ns/a",
		"/services/specs/ns/a":      "services ns/a",
		"/example.com/widgets/ns/a": "widgets ns/a",
		"/namespaces/ns":            "namespaces ns",
		"/example.com/robots/a":     "robots a",
	} {
		if got := unreadable(key, errors.New("damaged")); got.String() != want || got.Reason != "damaged" {
			t.Errorf("%s: %s, %s", key, got, got.Reason)
		}
	}
}
